/** How far a server's wall clock is from this machine's. No rule compares the two, but one that is far off may be set again. */
import type { Check } from './setup.js'

/** What was asked, and the middle of asking for it by our wall clock, in ms since 1970: about when a server read its own. */
export async function midway<T>(
  ask: () => Promise<T>,
): Promise<{ readonly answer: T; readonly middle: number }> {
  const before = Date.now()
  const answer = await ask()
  return { answer, middle: (before + Date.now()) / 2 }
}

/** @param server its reading, and `middle` the middle of asking for it by ours, in ms since 1970 */
export function clockCheck(server: number, middle: number): Check {
  const off = Math.round(server - middle)
  const found = `the server's clock is ${Math.abs(off)} ms ${off < 0 ? 'behind' : 'ahead of'} this machine's`
  if (Math.abs(off) < 60_000) return { what: 'clock', verdict: 'ok', found }
  return {
    what: 'clock',
    verdict: 'weak',
    found: `${found}; when it is put right, a lease may end early`,
    remedy: 'run an NTP client on the server',
  }
}
