/**
 * Wake-ups: one subscription on each server for all waits of this process, opened at the first wait. A message names an attempt that
 * should retry now. It is only a hint, so nothing depends on its arrival: a wait also polls.
 *
 * A server removes a waiter that cannot receive its message from the queue, and gives the lock to the next request. So a wait sends
 * its channel only once the subscription is up, and retries as soon as it is.
 */
import type { Subscription, SubscriptionHandler } from '../redis/client.js'
import type { Node } from './node.js'

export class Subscribers {
  readonly #channel: string
  readonly #nodes: readonly Node[]
  readonly #wakes = new Map<string, () => void>()
  readonly #hears = new Set<Node>()
  #listening: Subscription[] | undefined

  constructor(nodes: readonly Node[], channel: string) {
    this.#nodes = nodes
    this.#channel = channel
  }

  /** The channel on which that server can wake this process; undefined while the subscription is down. */
  at(node: Node): string | undefined {
    return this.#hears.has(node) ? this.#channel : undefined
  }

  /** Calls `wake` whenever a server announces this attempt's turn to ask. Returns a function that stops that. */
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

  #ear(node: Node): SubscriptionHandler {
    const stand = () => {
      this.#hears.add(node)
      for (const wake of this.#wakes.values()) wake()
    }
    return {
      message: (text) => this.#wakes.get(text)?.(),
      up: stand,
      down: () => void this.#hears.delete(node),
      // Messages will never arrive, and the waiter stays queued until the server notices: it polls as often as the others.
      refused: stand,
    }
  }
}
