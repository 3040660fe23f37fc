/** Does any server accept connections? Clients hide for seconds that a connection was refused, or why. */
import { connect, isIP } from 'node:net'
import { CliError, exits } from './exit.js'
import { plain } from './print.js'
import type { Keys } from './tls.js'
import { type Address, hostPort } from './url.js'

/** If a host neither accepts nor refuses within this time, the client decides. In ms. */
const timeout = 1_000

export interface Endpoints {
  /** The URL without its password. */
  readonly shown: string
  /** Addresses of its servers; empty: it has no servers. */
  readonly hosts: readonly Address[]
  /** Set if the servers speak TLS from the first byte. */
  readonly tls: Keys | undefined
}

/** Why no host accepts a connection; undefined: one does, or it is not known yet. */
export async function refusals({ hosts, tls }: Endpoints): Promise<string | undefined> {
  if (hosts.length === 0) return undefined
  const reasons = await Promise.all(hosts.map((host) => refusal(host, tls)))
  if (reasons.includes(undefined)) return undefined
  return hosts.map((host, i) => `${hostPort(host)} ${reasons[i]}`).join(', ')
}

export function unreachable({ shown, hosts }: Endpoints, refused: string, cause?: unknown): CliError {
  const error = new CliError(exits.unavailable, `the store cannot be reached: ${refused} (${shown})`, {
    cause,
  })
  const [host, ...others] = hosts
  if (host === undefined || others.length > 0) return error
  // For programs, so that they need not parse the message.
  const address = hostPort(host)
  return Object.assign(error, { address, reason: refused.slice(address.length + 1) })
}

async function refusal({ host, port }: Address, keys: Keys | undefined): Promise<string | undefined> {
  // Loaded only where it is needed: that takes a while.
  const connectSecurely = keys && (await import('node:tls')).connect
  return await new Promise((resolve) => {
    const at = { host, port, timeout: timeout }
    const name = isIP(host) === 0 ? { servername: host } : {}
    const socket = connectSecurely === undefined ? connect(at) : connectSecurely({ ...at, ...name, ...keys })
    const end = (why: string | undefined) => {
      socket.destroy()
      resolve(why)
    }
    socket.on(keys === undefined ? 'connect' : 'secureConnect', () => end(undefined))
    socket.on('timeout', () => end(undefined))
    socket.on('error', (error: NodeJS.ErrnoException) => end(errorCode(error)))
  })
}

/** System errors have short codes; for TLS errors the message says more. */
function errorCode({ code, message }: NodeJS.ErrnoException): string {
  return code !== undefined && /^E[A-Z]+$/.test(code) ? code : plain(message)
}
