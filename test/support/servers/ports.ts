// Free ports for servers.
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'

/** Above 10080, the last of the ports that `fetch` refuses to ask, as browsers do: a server of ours there would never be found ready. */
const lowest = 10_081
const handedOut = new Set<number>()

/** One empty file for each port that a process of this user may still use, so that no two processes hand out the same one. */
const reservations = join(tmpdir(), `holdfast-ports-${userInfo().uid}`)
/** A process that was killed leaves its files; no test runs for this long, in ms. */
const abandoned = 24 * 3_600_000

/**
 * A port on 127.0.0.1 that nobody listens on and that no other test process has been handed: one whose server is down for a moment, or whose
 * proxy refuses connections, keeps its port.
 *
 * Not one the kernel would pick for port 0: those are also the source ports of outgoing connections. A server that is
 * down for a moment in a test could find its port taken by a client, even by the very client that tries to reach it
 * (a TCP connection to oneself). So a random port below that range is tried. A process that is none of ours can still be
 * quicker between this check and the server's own bind: whoever starts a server tries again with another port then.
 */
export async function freePort(): Promise<number> {
  const end = firstEphemeral()
  for (let tries = 0; tries < 100; tries++) {
    const port = lowest + Math.floor(Math.random() * (end - lowest))
    if (handedOut.has(port) || !(await isFree(port)) || !reserve(port)) continue
    return port
  }
  throw new Error(`no free port found between ${lowest} and ${end} in 100 tries`)
}

/** @returns false if another process has it */
function reserve(port: number): boolean {
  if (handedOut.size === 0) {
    mkdirSync(reservations, { recursive: true, mode: 0o700 })
    process.once('exit', () => {
      for (const one of handedOut) rmSync(join(reservations, `${one}`), { force: true })
    })
  }
  const file = join(reservations, `${port}`)
  try {
    if (Date.now() - (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > abandoned)
      rmSync(file, { force: true })
    writeFileSync(file, '', { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
  handedOut.add(port)
  return true
}

function firstEphemeral(): number {
  const low = Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10)
  return low >= lowest + 1000 ? low : 32_768
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
