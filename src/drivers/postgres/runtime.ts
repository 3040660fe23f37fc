/** Shared state of the strategy `row`: connections, channel, waiters, holds. */
import type { Clock } from '../../core/clock.js'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { type Canceller, createCanceller } from './canceller.js'
import type { Database, Value } from './client.js'
import { createLane, type Lane } from './connections.js'
import { createGate, type Gate } from './gate.js'
import type { Hold } from './hold.js'
import type { Settings } from './options.js'
import { createReaper } from './reaper.js'
import { createRenewer, type Renewer } from './renewer.js'
import { type Call, type Calls, callsOf } from './sql.js'
import { createEar, type Ear, type Push } from './subscriber.js'
import type { Waiter } from './waiter.js'

/** A waiter for changes of one cell. */
export interface CellListener {
  changed(): void
  closed(error: unknown): void
}

export interface Desk {
  readonly clock: Clock
  readonly random: () => number
  readonly by: string
  readonly settings: Settings
  readonly calls: Calls
  readonly lane: Lane
  readonly ear: Ear
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
const mostAsks = 48
/** Pause between two checks of every hold, in ms: the first, the longest. */
const checks = { first: 50, longest: 1_000 }

/** @param listener where the connections to listen on come from; undefined: never listen */
export function createDesk(
  database: Database,
  listener: Database | undefined,
  settings: Settings,
  env: Env,
): Desk {
  const { clock } = env
  const waiters = new Map<string, Waiter>()
  const holds = new Map<string, Hold>()
  const cellListeners = new Map<string, Set<CellListener>>()
  const calls = callsOf(settings.schema)
  let closed = false
  const lane = createLane(database, clock, settings, env.random, {
    notified: (payload) => ear.heard(payload),
    mainGone: () => {
      if (listener === database) ear.broke()
      check(checks.first)
    },
    answered: () => reaper.look(),
    // A pool may close idle connections one after another.
    sharedGone: () => check(Math.max(checks.first, askedAt + checks.longest - clock.now())),
    anotherLife: () => check(0),
  })
  const ear = createEar({
    clock,
    channel: `holdfast_${env.id()}`,
    database: listener,
    main: listener === database && database.shared === undefined ? () => lane.main() : undefined,
    push: (push) => hear(push),
    up: () => {
      for (const waiter of [...waiters.values()]) waiter.ask()
      // They ask again and tell the server where to notify them now.
      for (const listener of allListeners()) listener.changed()
    },
    down: () => check(checks.first),
    needed: () => waiters.size + holds.size + cellListeners.size > 0,
  })

  const allListeners = () => [...cellListeners.values()].flatMap((listeners) => [...listeners])

  function hear(push: Push): void {
    if (push.is === 'cell')
      for (const listener of [...(cellListeners.get(push.key) ?? [])]) listener.changed()
    else if (push.is === 'next') waiters.get(push.attempt)?.foretold(push.left / 1000)
    else if (push.is === 'turn') waiters.get(push.attempt)?.hear(push.is)
    // The answer that makes it a holder comes over another connection and may arrive later.
    else if (push.is !== 'try') (holds.get(push.attempt) ?? waiters.get(push.attempt))?.hear(push.is)
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
      const kept = await Promise.allSettled([...holds.values()].map((hold) => hold.keep()))
      checking = undefined
      asking = false
      askedAt = clock.now()
      if (kept.some(({ status }) => status === 'rejected'))
        check(Math.min(Math.max(2 * pause, checks.first), checks.longest))
      else if (anew) check(checks.first)
    }
    checking = clock.at(clock.now() + pause, () => void ask(), { ref: false })
  }

  const renewer = createRenewer(lane, calls, clock)
  const ask = (call: Call, values: readonly Value[]) => lane.ask(call, values)
  const reaper = createReaper(ask, calls, settings, env)
  const canceller = createCanceller(lane, calls, clock, settings.commandTimeout)
  const desk: Desk = {
    clock,
    random: env.random,
    by: env.by,
    settings,
    calls,
    lane,
    ear,
    renewer,
    waiters,
    holds,
    cellListeners,
    gate: createGate(mostAsks),
    cancel: canceller.cancel,
    async close() {
      closed = true
      for (const waiter of [...waiters.values()]) waiter.stop()
      const end = new BackendError('postgres', 'the locks were closed', { closed: true })
      for (const listener of allListeners()) listener.closed(end)
      checking?.()
      await Promise.allSettled([canceller.close(), reaper.close()])
      for (const hold of [...holds.values()]) hold.drop()
      await ear.close()
      lane.close()
    },
  }
  return desk
}
