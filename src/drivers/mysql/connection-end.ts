/** Reports the end of a pool connection to every driver that uses the pool. */
import type { Connection } from './client.js'

/** Listeners for the end of a connection that stays in the pool: each connection is watched once, however many drivers use the pool. */
const endListeners = new WeakMap<object, Set<() => void>>()

/** Like `watch`, for a connection that is returned to the pool and borrowed again. */
export function onConnectionEnd({ identity, watch }: Connection, ended: () => void): () => void {
  let all = endListeners.get(identity)
  if (all === undefined) {
    const listeners = new Set<() => void>()
    endListeners.set(identity, listeners)
    watch(() => {
      for (const listener of listeners) listener()
    })
    all = listeners
  }
  const listeners = all
  listeners.add(ended)
  return () => void listeners.delete(ended)
}
