// Free ports for servers.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'

/** Above 10080, the last of the ports that `fetch` refuses to ask, as browsers do: a server of ours there would never be found ready. */
const lowest = 10_081
const handedOut = new Set<number>()

/**
 * A port on 127.0.0.1 that nobody listens on and that this process did not hand out before.
 *
 * Not one the kernel would pick for port 0: those are also the source ports of outgoing connections. A server that is
 * down for a moment in a test could find its port taken by a client, even by the very client that tries to reach it
 * (a TCP connection to oneself). So a random port below that range is tried. Another process can still be quicker
 * between this check and the server's own bind: whoever starts a server tries again with another port then.
 */
export async function freePort(): Promise<number> {
  const end = firstEphemeral()
  for (let tries = 0; tries < 100; tries++) {
    const port = lowest + Math.floor(Math.random() * (end - lowest))
    if (handedOut.has(port) || !(await isFree(port))) continue
    handedOut.add(port)
    return port
  }
  throw new Error(`no free port found between ${lowest} and ${end} in 100 tries`)
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
