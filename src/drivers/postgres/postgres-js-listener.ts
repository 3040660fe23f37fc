/**
 * Listens over an instance of postgres.js. Whenever that has to connect again, it listens again by itself; but if the server refuses the LISTEN,
 * as a standby does, it keeps the refusal for as long as the connection lasts, and a standby that is promoted keeps its connections.
 */
import { systemClock } from '../../core/clock.js'
import type { PostgresJs } from './client.js'

/** Pause before the next try after a refusal, in ms. */
const retryPause = 1_000

/** What postgres.js has about a channel: another object each time it listens. Early versions have no `result`. */
interface Channel {
  readonly result?: PromiseLike<unknown>
}

/** The parts of `sql.listen` that are there once it was called, unless somebody has wrapped it. */
interface Listen {
  readonly channels?: Record<string, Channel>
  /** The instance that listens. */
  readonly sql?: Pick<PostgresJs, 'options'>
}

const clock = systemClock()
const nothing = () => undefined

/** Calls `up` each time it listens. @returns a function that stops it, at the first success */
export function listenOver(
  sql: PostgresJs,
  channel: string,
  onPayload: (payload: string) => void,
  up: () => void,
): Promise<() => Promise<void>> {
  return new Promise((resolve) => {
    let stopped = false
    let cancel = nothing as () => void
    let forget = nothing as () => void
    let unlisten = async (): Promise<unknown> => undefined
    const stop = async () => {
      stopped = true
      cancel()
      forget()
      await unlisten().catch(nothing)
    }
    const listen = () => {
      // If it cannot connect, postgres.js tries again by itself; every further call would add another listener to that try.
      const listening = sql.listen(channel, onPayload, () => {
        up()
        resolve(stop)
      })
      // Early versions do not call back.
      listening.then((one) => {
        unlisten = one.unlisten
        resolve(stop)
      }, nothing)
      watch()
    }
    const watch = () => {
      const { channels } = sql.listen as Listen
      const present = channels?.[channel]
      if (channels === undefined || present === undefined) return
      const refused = () => {
        if (stopped || channels[channel] !== present) return
        // Every further call would get the same refusal.
        delete channels[channel]
        cancel = clock.at(clock.now() + retryPause, listen, { ref: false })
      }
      present.result?.then(nothing, refused)
    }
    listen()
    const { sql: listener } = sql.listen as Listen
    // It listens again right after this.
    if (listener !== undefined) forget = onConnectionEnds(listener.options, () => queueMicrotask(watch))
  })
}

/** Listeners for the ends of an instance's connections, by its options object. */
const endHooks = new WeakMap<object, Set<() => void>>()

/** postgres.js reports the end of a connection only to its `onclose` option. An `onclose` set before is still called. */
export function onConnectionEnds(options: PostgresJs['options'], gone: () => void): () => void {
  let all = endHooks.get(options)
  if (all === undefined) {
    const listeners = new Set<() => void>()
    const { onclose: before } = options as { readonly onclose?: (id: unknown) => unknown }
    const onclose = (id: unknown) => {
      for (const listener of listeners) listener()
      return before?.(id)
    }
    Object.assign(options, { onclose })
    endHooks.set(options, listeners)
    all = listeners
  }
  all.add(gone)
  return () => void all.delete(gone)
}
