/**
 * The clients of single nodes behind a node-redis client of Sentinels. It tells when the master is another one, but not when its
 * connection to the same one breaks and is made anew, and then the master may have restarted and forgotten. So they are asked themselves.
 */
import type { Single } from './node-redis.js'

interface Watching {
  readonly down: () => void
  readonly up: () => void
}

export class Nodes {
  readonly #watching = new Set<Watching>()
  /** Those listened to, with what ends that. */
  readonly #heeded = new Map<Single, () => void>()

  /** Called with a node's client before something is sent by it. */
  heed(node: Single): Single {
    if (this.#watching.size === 0 || this.#heeded.has(node)) return node
    const down = () => {
      for (const one of this.#watching) one.down()
    }
    const up = () => {
      for (const one of this.#watching) one.up()
    }
    const end = () => {
      this.#heeded.get(node)?.()
      down()
    }
    const events = [
      ['reconnecting', down],
      ['ready', up],
      ['end', end],
    ] as const
    this.#heeded.set(node, () => {
      for (const [event, listener] of events) node.off(event, listener)
      this.#heeded.delete(node)
    })
    for (const [event, listener] of events) node.on(event, listener)
    return node
  }

  watch(down: () => void, up: () => void): () => void {
    const one = { down, up }
    this.#watching.add(one)
    return () => {
      this.#watching.delete(one)
      if (this.#watching.size === 0) for (const stop of [...this.#heeded.values()]) stop()
    }
  }
}
