/**
 * Being woken: one subscription on each server for all waits of this process, opened when something is first waited for. A
 * message names an attempt that should ask again now. It is only a hint, so nothing depends on its arrival: a wait also asks
 * again by itself.
 *
 * A server takes who cannot hear it out of its line, and gives the lock to whoever asks next. So a wait says where it is woken
 * only once it would hear that, and asks again as soon as it would.
 */
import type { Ear, Listening } from '../redis/client.js'
import type { Node } from './node.js'

export class Ears {
  readonly #channel: string
  readonly #nodes: readonly Node[]
  readonly #wakes = new Map<string, () => void>()
  readonly #hears = new Set<Node>()
  #listening: Listening[] | undefined

  constructor(nodes: readonly Node[], channel: string) {
    this.#nodes = nodes
    this.#channel = channel
  }

  /** Where to be woken by that server; undefined while it would not be heard. */
  at(node: Node): string | undefined {
    return this.#hears.has(node) ? this.#channel : undefined
  }

  /** Calls `wake` whenever a server says that it is this attempt's turn to ask. Returns what ends that. */
  expect(attempt: string, wake: () => void): () => void {
    this.#wakes.set(attempt, wake)
    this.#listening ??= this.#nodes.map((node) =>
      node.connection.listen(this.#channel, this.#ear(node), false),
    )
    return () => void this.#wakes.delete(attempt)
  }

  close(): void {
    for (const one of this.#listening ?? []) one.close()
    this.#listening = undefined
    this.#hears.clear()
  }

  #ear(node: Node): Ear {
    const stand = () => {
      this.#hears.add(node)
      for (const wake of this.#wakes.values()) wake()
    }
    return {
      message: (text) => this.#wakes.get(text)?.(),
      up: stand,
      down: () => void this.#hears.delete(node),
      // It will never be heard, and stands in line until that shows: it asks again by itself as often as the others.
      refused: stand,
    }
  }
}
