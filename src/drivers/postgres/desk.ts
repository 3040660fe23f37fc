/** What the parts of the strategy `row` share: the connections, the ear, who waits and who holds. */
import type { Clock } from '../../core/clock.js'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import type { Database } from './client.js'
import { createEar, type Ear, type Push } from './ear.js'
import type { Hold } from './hold.js'
import { createLane, type Lane } from './lane.js'
import type { Settings } from './options.js'
import { createReaper } from './reaper.js'
import { createRenewer, type Renewer } from './renewer.js'
import { type Calls, callsOf } from './sql.js'
import { troubleOf } from './trouble.js'
import type { Waiter } from './waiter.js'

/** Somebody waits for a change of a cell. */
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
  /**
   * Ends an attempt, in the background for as long as it could block others if the server does not answer now. Resolves
   * when it has been tried once. @param ghost may a request of it still arrive?
   */
  cancel(attempt: string, name: string, ttl: number, ghost: boolean): Promise<void>
  /** Waits for what is being cancelled, as long as a request may take, then ends everything. */
  close(): Promise<void>
}

/** @param listener of which connections to listen on are made; undefined: never listen */
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
  const later = new Set<() => void>()
  const cancelling = new Set<Promise<void>>()
  const calls = callsOf(settings.schema)
  let closed = false
  const lane = createLane(database, clock, settings, env.random, {
    notified: (payload) => ear.heard(payload),
    mainGone: () => {
      if (listener === database) ear.broke()
    },
  })
  const ear = createEar({
    clock,
    channel: `holdfast_${env.id()}`,
    database: listener,
    main: listener === database && database.shared === undefined ? () => lane.main() : undefined,
    push: (push) => hear(push),
    up: () => {
      for (const waiter of [...waiters.values()]) waiter.ask()
      // They ask again, and say where they can be reached now.
      for (const listener of allListeners()) listener.changed()
    },
    needed: () => waiters.size + holds.size + cellListeners.size > 0,
  })

  const allListeners = () => [...cellListeners.values()].flatMap((listeners) => [...listeners])

  function hear(push: Push): void {
    if (push.is === 'cell') {
      for (const listener of [...(cellListeners.get(push.key) ?? [])]) listener.changed()
      return
    }
    const { attempt } = push
    if (push.is === 'next') return waiters.get(attempt)?.foretold(push.left / 1000)
    if (push.is === 'try') return
    // The answer that makes it a holder comes over another connection, and may come later.
    if (push.is !== 'granted') return (holds.get(attempt) ?? waiters.get(attempt))?.hear(push.is)
    const waiter = waiters.get(attempt)
    if (waiter !== undefined) return waiter.push(push)
    if (holds.has(attempt)) return
    // Nobody here knows of it: it was given up, or a request of it arrived after that. Others must not wait for its claim.
    void desk.cancel(attempt, push.name, push.claim / 1000, false)
  }

  const renewer = createRenewer(lane, calls, clock)
  const reaper = createReaper(lane, calls, settings, env)
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
    cancel(attempt, name, ttl, ghost) {
      const until = clock.now() + ttl
      const once = async (): Promise<void> => {
        try {
          await lane.ask(calls.cancel, [name, attempt, ghost ? 1 : 0], settings.commandTimeout)
          reaper.look()
        } catch (error) {
          if (closed || !troubleOf(error).passing || clock.now() >= until) return
          const again = () => {
            later.delete(stop)
            void once()
          }
          const stop = clock.at(clock.now() + 250, again, { ref: false })
          later.add(stop)
        }
      }
      const first = once()
      cancelling.add(first)
      void first.finally(() => cancelling.delete(first))
      return first
    },
    async close() {
      closed = true
      for (const waiter of [...waiters.values()]) waiter.stop()
      const end = new BackendError('postgres', 'the locks were closed', { closed: true })
      for (const listener of allListeners()) listener.closed(end)
      await Promise.allSettled([...cancelling, reaper.close()])
      for (const hold of [...holds.values()]) hold.drop()
      for (const stop of later) stop()
      later.clear()
      await ear.close()
      lane.close()
    },
  }
  return desk
}
