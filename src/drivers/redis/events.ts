/**
 * Listeners on the user's clients. The driver adds one listener per event, however many locks use the client: an emitter warns of a
 * leak from the eleventh listener on.
 */

/** The part of a client's emitter used here. */
export interface Emitter {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  off(event: string, listener: (...args: unknown[]) => void): unknown
}

type Listener = (...args: unknown[]) => void

interface SharedListener {
  readonly listeners: Set<{ readonly call: Listener }>
  readonly first: Listener
}

const shared = new WeakMap<object, Map<string | symbol, SharedListener>>()

/** Calls `listener` at each `event`. Returns a function that stops that. */
export function on(emitter: Emitter, event: string | symbol, listener: Listener): () => void {
  const events = shared.get(emitter) ?? new Map<string | symbol, SharedListener>()
  shared.set(emitter, events)
  const known = events.get(event) ?? shareListener(emitter, event)
  events.set(event, known)
  // Wrapped in its own entry: the same function may be added twice.
  const entry = { call: listener }
  known.listeners.add(entry)
  return () => {
    if (!known.listeners.delete(entry) || known.listeners.size > 0) return
    emitter.off(event as string, known.first)
    events.delete(event)
  }
}

/** Like `on`, for several events. */
export function onAll(
  emitter: Emitter,
  all: Readonly<Record<string, Listener>> | readonly (readonly [string | symbol, Listener])[],
): () => void {
  const pairs = Array.isArray(all) ? all : Object.entries(all)
  const stops = pairs.map(([event, listener]) => on(emitter, event, listener))
  return () => {
    for (const stop of stops) stop()
  }
}

function shareListener(emitter: Emitter, event: string | symbol): SharedListener {
  const listeners: SharedListener['listeners'] = new Set()
  const first: Listener = (...args) => {
    for (const { call } of [...listeners]) call(...args)
  }
  emitter.on(event as string, first)
  return { listeners, first }
}
