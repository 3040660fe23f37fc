// Free ports for servers.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'

/** Above 10080, the last of the ports that `fetch` refuses to ask, as browsers do: a server of ours there would never be found ready. */
const lowest = 10_081
const handedOut = new Set<number>()

/** A file for each port, with the id of the process that has it, so that no two processes are handed the same one. */
const reservations = join(tmpdir(), `holdfast-ports-${userInfo().uid}`)

/**
 * A port on 127.0.0.1 that nobody listens on and that no other test process has been handed: one whose server is down for a moment, or whose
 * proxy refuses connections, keeps its port.
 *
 * Not one the kernel would pick for port 0: those are also the source ports of outgoing connections. A server that is
 * down for a moment in a test could find its port taken by a client, even by the very client that tries to reach it
 * (a TCP connection to oneself). So a random port below that range is tried. A process that is none of ours can still be
 * quicker between this check and the server's own bind: the code that starts a server tries again with another port then.
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
  mkdirSync(reservations, { recursive: true, mode: 0o700 })
  const file = join(reservations, `${port}`)
  // Only one process at a time looks at a port: two that find the same dead owner must not both take its place.
  const turn = `${file}.turn`
  if (!create(turn, '')) return false
  try {
    if (!create(file, `${process.pid}`)) {
      if (isAlive(readFileSync(file, 'utf8'))) return false
      writeFileSync(file, `${process.pid}`)
    }
  } finally {
    rmSync(turn)
  }
  handedOut.add(port)
  return true
}

function create(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

/** A process that was killed leaves its files behind. */
function isAlive(pid: string): boolean {
  try {
    process.kill(Number(pid), 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
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
