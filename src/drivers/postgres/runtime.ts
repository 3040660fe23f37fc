/** Shared state of the strategy `row`: connections, channel, waiters, holds. */
import type { Clock } from '../../core/clock.js'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { type Canceller, createCanceller } from './canceller.js'
import type { Database, Value } from './client.js'
import { type Connections, createConnections } from './connections.js'
import { createGate, type Gate } from './gate.js'
import type { Hold } from './hold.js'
import type { Settings } from './options.js'
import { createReaper } from './reaper.js'
import { createRenewer, type Renewer } from './renewer.js'
import { type Call, type Calls, createCalls } from './sql.js'
import { createSubscriber, type Notification, type Subscriber } from './subscriber.js'
import type { Waiter } from './waiter.js'

/** A waiter for changes of one cell. */
export interface CellListener {
  changed(): void
  closed(error: unknown): void
}

export interface Runtime {
  readonly clock: Clock
  readonly random: () => number
  readonly by: string
  readonly settings: Settings
  readonly calls: Calls
  readonly connections: Connections
  readonly subscriber: Subscriber
  readonly renewer: Renewer
  readonly waiters: Map<string, Waiter>
  readonly holds: Map<string, Hold>
  readonly cellListeners: Map<string, Set<CellListener>>
  readonly gate: Gate
  readonly cancel: Canceller['cancel']
  /** Waits for cancellations in progress, for as long as a request may take, then ends everything. */
  close(): Promise<void>
}

/** Waiter requests in flight at once: what the connections carry with little queueing. */
const maxRequests = 48
/** Pause between two checks of every hold, in ms: the first, the longest. */
const checks = { first: 50, longest: 1_000 }

/** @param listener where the connections to listen on come from; undefined: never listen */
export function createRuntime(
  database: Database,
  listener: Database | undefined,
  settings: Settings,
  env: Env,
): Runtime {
  const { clock } = env
  const waiters = new Map<string, Waiter>()
  const holds = new Map<string, Hold>()
  const cellListeners = new Map<string, Set<CellListener>>()
  const calls = createCalls(settings.schema)
  let closed = false
  const connections = createConnections(database, clock, settings, env.random, {
    notified: (payload) => subscriber.onPayload(payload),
    mainLost: () => {
      if (listener === database) subscriber.onConnectionEnd()
      check(checks.first)
    },
    answered: () => reaper.sweepIfDue(),
    // A pool may close idle connections one after another.
    pooledLost: () => check(Math.max(checks.first, askedAt + checks.longest - clock.now())),
    serverRestarted: () => check(0),
  })
  const subscriber = createSubscriber({
    clock,
    channel: `holdfast_${env.id()}`,
    database: listener,
    main: listener === database && database.shared === undefined ? () => connections.main() : undefined,
    onNotification: (push) => dispatch(push),
    onUp: () => {
      for (const waiter of [...waiters.values()]) waiter.ask()
      // They ask again and tell the server where to notify them now.
      for (const listener of allListeners()) listener.changed()
      // Somebody may have taken a hold by force after the check of `onDown`, while no notification arrived.
      check(checks.first)
    },
    onDown: () => check(checks.first),
    isNeeded: () => waiters.size + holds.size + cellListeners.size > 0,
  })

  const allListeners = () => [...cellListeners.values()].flatMap((listeners) => [...listeners])

  function dispatch(push: Notification): void {
    if (push.is === 'cell')
      for (const listener of [...(cellListeners.get(push.key) ?? [])]) listener.changed()
    else if (push.is === 'next') waiters.get(push.attempt)?.expectTurnIn(push.left / 1000)
    else if (push.is === 'turn') waiters.get(push.attempt)?.onNotification(push.is)
    // The answer that makes it a holder comes over another connection and may arrive later.
    else if (push.is !== 'try')
      (holds.get(push.attempt) ?? waiters.get(push.attempt))?.onNotification(push.is)
  }

  let checking: (() => void) | undefined
  let asking = false
  /** A check was requested while another was running. */
  let anew = false
  let askedAt = Number.NEGATIVE_INFINITY
  /**
   * A connection has ended: the next answer may come from another server, or from one that knows less because it was restored from an older
   * copy. Every hold asks until it is answered, and has its proven validity written again, because an older copy may have an earlier expiry.
   */
  function check(pause: number): void {
    if (asking) anew = true
    if (checking !== undefined || closed) return
    const ask = async () => {
      asking = true
      anew = false
      const kept = await Promise.allSettled([...holds.values()].map((hold) => hold.onRenewed()))
      checking = undefined
      asking = false
      askedAt = clock.now()
      if (kept.some(({ status }) => status === 'rejected'))
        check(Math.min(Math.max(2 * pause, checks.first), checks.longest))
      else if (anew) check(checks.first)
    }
    checking = clock.at(clock.now() + pause, () => void ask(), { ref: false })
  }

  const renewer = createRenewer(connections, calls, clock)
  const ask = (call: Call, values: readonly Value[]) => connections.execute(call, values)
  const reaper = createReaper(ask, calls, settings, env)
  const canceller = createCanceller(connections, calls, clock, settings.commandTimeout)
  const runtime: Runtime = {
    clock,
    random: env.random,
    by: env.client,
    settings,
    calls,
    connections,
    subscriber,
    renewer,
    waiters,
    holds,
    cellListeners,
    gate: createGate(maxRequests),
    cancel: canceller.cancel,
    async close() {
      closed = true
      for (const waiter of [...waiters.values()]) waiter.stop()
      const end = new BackendError('postgres', 'the locks were closed', { closed: true })
      for (const listener of allListeners()) listener.closed(end)
      checking?.()
      await Promise.allSettled([canceller.close(), reaper.close()])
      for (const hold of [...holds.values()]) hold.drop()
      await subscriber.close()
      connections.close()
    },
  }
  return runtime
}
