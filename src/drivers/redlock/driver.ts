/**
 * The algorithm: ask all servers at once for their vote on one ballot; a majority holds the lock. A round is decided as early as
 * possible; a minority is released at once, on all servers, so that contenders with split votes do not block each other.
 *
 * A server votes only for ballots greater than all it has voted for. Two majorities share a server, so a later holder's ballot is
 * greater than an earlier one's: the ballot is the token, in the same round trip. The first ballot of a wait comes from the servers'
 * clocks. Each refusal names a ballot, and the next round asks with a greater one. A slow round does no harm: a server does not by
 * itself raise the ballot it named. A ballot reported for one name is not used for others: a server whose clock is far ahead raises
 * only the ballots of locks that cannot be acquired without it.
 *
 * One claim is in `waiter.ts`, its ballots in `ballots.ts`, what the replies mean in `round-outcome.ts`, a grant in `hold.ts`.
 */
import type { Claim, DriverFactory, Grant, LockStatus, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { orAborted } from '../../core/or-aborted.js'
import { connect } from '../redis/client.js'
import { lockStatus } from './inspect.js'
import { Node } from './node.js'
import { parseOptions, type RedlockOptions } from './options.js'
import { count, type NodeReply, round } from './round.js'
import { noMajority } from './round-outcome.js'
import { Runtime } from './runtime.js'
import { force, inspect } from './scripts.js'
import { Voters } from './voters.js'
import { Waiter } from './waiter.js'

export interface RedlockTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared']
  readonly fair: false
  readonly shared: true
}

const traits: RedlockTraits = {
  // Majorities cannot count permits: with five servers and two permits each, three holders find a majority.
  modes: ['exclusive', 'shared'] as const,
  fair: false,
  minTtl: 100,
  shared: true,
}

/**
 * @throws TypeError or RangeError for invalid options, before any I/O; BackendError on first use when two clients lead to one server, or one to a node of a Cluster
 */
export function redlock(options: RedlockOptions): DriverFactory<RedlockTraits> {
  const settings = parseOptions(options)
  return (env) => {
    const nodes = options.clients.map((client, place) => {
      const connection = connect(client, env.clock, `client ${place}`)
      if (connection.cluster) {
        throw new TypeError(
          `redlock: client ${place} is a Cluster; pass clients of independent servers, or use redis() for the Cluster`,
        )
      }
      return new Node(connection, place, env.clock)
    })
    const runtime = new Runtime(new Voters(nodes, env, settings), env, settings)
    const waits: Waits = new Map()
    return {
      name: 'redlock',
      // A ttl including it must fit into `maxTtl`.
      traits: Object.freeze({ ...traits, maxLockDelay: Math.floor(settings.maxTtl * 0.49) }),
      acquire: (claim, wait) => acquire(runtime, waits, claim, wait),
      inspect: (name) => inspectLock(runtime, name),
      forceRelease: (name) => forceRelease(runtime, name),
      close: () => runtime.close(),
    }
  }
}

/** Current waits, by attempt. A repeated claim joins its wait: a round of a second wait would end a vote of the first. */
type Waits = Map<string, Promise<Grant | undefined>>

async function acquire(runtime: Runtime, waits: Waits, claim: Claim, wait: Wait): Promise<Grant | undefined> {
  if (runtime.closed) throw new BackendError('redlock', 'these locks were closed', { closed: true })
  runtime.ensureAllowed(claim.ttl)
  const { attempt } = claim
  const known = runtime.held.get(attempt)
  if (known !== undefined) return known
  if (wait.remaining() <= 0) return new Waiter(runtime, claim, wait).acquire()
  const before = waits.get(attempt)
  if (before === undefined) {
    const asking = new Waiter(runtime, claim, wait).acquire().finally(() => waits.delete(attempt))
    waits.set(attempt, asking)
    return asking
  }
  // If the wait that the same claim already has ends without a grant, this one continues by itself.
  const grant = await orAborted(before, wait.signal).catch(() => undefined)
  if (wait.ended || runtime.closed) return undefined
  return grant ?? acquire(runtime, waits, claim, wait)
}

async function inspectLock(runtime: Runtime, name: string): Promise<LockStatus> {
  const { group } = runtime
  await group.ready()
  const all = await askAll(runtime, (node) => node.ask(inspect, [runtime.toKey(name)], []))
  return lockStatus(name, all, group.majority)
}

async function forceRelease(runtime: Runtime, name: string): Promise<number> {
  const { holders } = await inspectLock(runtime, name)
  if (holders.length === 0) return 0
  const seen = ` ${holders.map(({ attempt }) => attempt).join(' ')} `
  const retention = String(runtime.settings.retention)
  await askAll(runtime, (node) => node.run(force, [runtime.toKey(name)], [retention, seen]))
  return holders.length
}

/** Waits for every server that answers in time. @throws BackendError when they are no majority */
async function askAll<A>(
  { env, settings, group }: Runtime,
  ask: (node: Node) => Promise<A>,
): Promise<readonly NodeReply<A>[]> {
  const all = await round(env.clock, settings.commandTimeout, group.nodes, ask, () => false)
  if (count(all, () => true) < group.majority) throw noMajority(all, group)
  return all
}
