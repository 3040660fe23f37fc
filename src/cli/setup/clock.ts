/** Difference between a server's wall clock and this machine's. No rule compares the two, but a clock that is far off may be set again. */
import { type Check, ok, weak } from './check.js'

/** Runs `ask` and returns its result with the midpoint of the request on our wall clock, in ms since 1970: about when the server read its clock. */
export async function midway<T>(
  ask: () => Promise<T>,
): Promise<{ readonly answer: T; readonly middle: number }> {
  const before = Date.now()
  const answer = await ask()
  return { answer, middle: (before + Date.now()) / 2 }
}

/** @param server its clock reading; `middle`: the midpoint of the request on our clock; both in ms since 1970 */
export function clockCheck(server: number, middle: number): Check {
  const off = Math.round(server - middle)
  const found = `the server's clock is ${Math.abs(off)} ms ${off < 0 ? 'behind' : 'ahead of'} this machine's`
  if (Math.abs(off) < 60_000) return ok('clock', found)
  return weak(
    'clock',
    found,
    'when it is put right, a lease may end early',
    'run an NTP client on the server (chronyd, systemd-timesyncd)',
  )
}
