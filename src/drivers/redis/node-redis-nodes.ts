/**
 * The single-node clients behind a node-redis Sentinel client. The Sentinel client reports a change of master, but not when its
 * connection to the same master breaks and is re-established; the master may then have restarted and lost locks. So the driver
 * listens to the single-node clients themselves.
 */
import { onAll } from './events.js'
import type { Single } from './node-redis-topologies.js'

interface Watching {
  readonly down: () => void
  readonly up: () => void
}

export class Nodes {
  readonly #watching = new Set<Watching>()
  /** The clients listened to, each with the function that stops it. */
  readonly #watched = new Map<Single, () => void>()

  /** Called with a node's client before a command is sent over it. */
  watchOutages(node: Single): Single {
    if (this.#watching.size === 0 || this.#watched.has(node)) return node
    const down = () => {
      for (const one of this.#watching) one.down()
    }
    const up = () => {
      for (const one of this.#watching) one.up()
    }
    const end = () => {
      this.#watched.get(node)?.()
      down()
    }
    const stop = onAll(node, { reconnecting: down, ready: up, end })
    this.#watched.set(node, () => {
      stop()
      this.#watched.delete(node)
    })
    return node
  }

  watch(down: () => void, up: () => void): () => void {
    const one = { down, up }
    this.#watching.add(one)
    return () => {
      this.#watching.delete(one)
      if (this.#watching.size === 0) for (const stop of [...this.#watched.values()]) stop()
    }
  }
}
