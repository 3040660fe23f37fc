/** The nodes of an ioredis Cluster, for `redirections.ts`. */
import type { Clock } from '../../core/clock.js'
import type { Full } from './ioredis.js'
import { following, isRedirection, type Nodes, withHost } from './redirections.js'

type Command = readonly [string, ...string[]]
type Address = { readonly host: string; readonly port: number }
type NatMap = Readonly<Record<string, Address>> | ((address: string) => Address | null)

/** How long the client may follow redirections by itself before we ask a node directly, in ms. */
const hedgeAfter = 300
/** How long after that the client's own copy may still arrive, in ms: by default the client tries 16 times, 100 ms apart. */
export const repeatsFor = 10_000

/**
 * Sends all commands in one pipeline: if the connection breaks in between, the rest fails instead of going over the next connection.
 * In lower case, because ioredis 5.0 knows which arguments are keys, and takes its prefix, only by the lower-case name.
 */
export async function runTogether(client: Full, commands: readonly Command[]): Promise<readonly unknown[]> {
  const pipeline = client.pipeline()
  for (const [name, ...args] of commands) pipeline.call(name.toLowerCase(), ...args)
  const answers = (await pipeline.exec()) ?? []
  return answers.map(([error, reply]) => error ?? reply)
}

export function followCluster(cluster: Full, clock: Clock): ReturnType<typeof following> {
  const nodes: Nodes<Full> = {
    masters: () => (cluster.nodes?.('master') ?? []).filter(({ status }) => status !== 'end'),
    at(address, from) {
      const whole = withHost(address, from.options?.host)
      const map = cluster.options?.natMap as NatMap | undefined
      const mapped = typeof map === 'function' ? map(whole) : map?.[whole]
      const is = mapped ? `${mapped.host}:${mapped.port}` : whole
      return cluster.nodes?.('all').find(({ options }) => `${options?.host}:${options?.port}` === is)
    },
    send: runTogether,
    // A redirection makes the client connect to the node that has the key.
    learn: (key) => cluster.eval('return 0', 1, [key], []),
  }
  return following(nodes, clock)
}

const givenUp = /^Too many Cluster redirections\. Last error: (?:\w+: )?/

/** ioredis gives up after `maxRedirections` errors, of which a server that is waking up uses most, and wraps the last one, whatever it is. */
function lastOf(error: Error): Error {
  return givenUp.test(error.message) ? new Error(error.message.replace(givenUp, ''), { cause: error }) : error
}

export function throwLast(error: Error): never {
  throw lastOf(error)
}

/**
 * Asks the node that a redirection names, if the client gives up with one: no node has executed the command then. With a `natMap`
 * ioredis looks the node up by the address the server named, does not find it, and tries random ones.
 */
export function unlessMoved<T>(
  answer: Promise<T>,
  directly: () => Promise<T>,
  repeated: () => void,
): Promise<T> {
  return answer.catch((thrown: Error) => {
    const error = lastOf(thrown)
    if (!isRedirection(error)) throw error
    repeated()
    return directly()
  })
}

/**
 * When a slot being moved cannot be served, ioredis silently retries at random nodes. After a moment this asks the node directly, too:
 * our scripts may run twice. Of the node's errors two count: TRYAGAIN, and NOSCRIPT.
 */
export function unlessTryAgain<T>(
  clock: Clock,
  answer: Promise<T>,
  directly: () => Promise<T>,
  hedged: () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let settled = false
    const hedge = () => {
      if (settled) return
      hedged()
      directly().then(resolve, (error: Error) => {
        if (/^(TRYAGAIN|NOSCRIPT)/.test(error.message)) reject(error)
      })
    }
    // If the event loop was blocked, the answer may already be in the socket.
    const stop = clock.at(clock.now() + hedgeAfter, () => clock.soon(hedge), { ref: false })
    const over = () => {
      settled = true
      stop()
    }
    answer.finally(over).then(resolve, reject)
  })
}
