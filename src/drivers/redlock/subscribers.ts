/**
 * Wake-ups: one subscription on each server for all waits of this process, opened at the first wait. A message names an attempt that
 * should retry now. It is only a hint, so nothing depends on its arrival: a wait also polls. Each server wakes an attempt at most once in
 * 25 ms: anyone with the right to publish can forge messages, and a flood of them must not become a flood of votes.
 *
 * A server removes a waiter that cannot receive its message from the queue, and gives the lock to the next request. So a wait sends
 * its channel only once the subscription is up, and retries as soon as it is.
 */
import type { Clock } from '../../core/clock.js'
import { Hints } from '../kit/hints.js'
import type { Subscription, SubscriptionHandler } from '../redis/client.js'
import type { Node } from './node.js'

interface Waiting {
  readonly wake: () => void
  /** Made when a server sends its first message. */
  readonly hints: Map<Node, Hints>
}

export class Subscribers {
  readonly #channel: string
  readonly #nodes: readonly Node[]
  readonly #clock: Clock
  readonly #waiting = new Map<string, Waiting>()
  readonly #isSubscribed = new Set<Node>()
  #listening: Subscription[] | undefined

  constructor(nodes: readonly Node[], channel: string, clock: Clock) {
    this.#nodes = nodes
    this.#clock = clock
    this.#channel = channel
  }

  /** The channel on which that server can wake this process; undefined while the subscription is down. */
  at(node: Node): string | undefined {
    return this.#isSubscribed.has(node) ? this.#channel : undefined
  }

  /** Calls `wake` whenever a server announces this attempt's turn to ask. Returns a function that stops that. */
  expect(attempt: string, wake: () => void): () => void {
    const waiting: Waiting = { wake, hints: new Map() }
    this.#waiting.set(attempt, waiting)
    this.#listening ??= this.#nodes.map((node) =>
      node.connection.listen(this.#channel, this.#subscribe(node), false),
    )
    return () => {
      this.#waiting.delete(attempt)
      for (const hints of waiting.hints.values()) hints.stop()
    }
  }

  close(): void {
    for (const one of this.#listening ?? []) one.close()
    this.#listening = undefined
    this.#isSubscribed.clear()
  }

  #subscribe(node: Node): SubscriptionHandler {
    const stand = () => {
      this.#isSubscribed.add(node)
      for (const { wake } of this.#waiting.values()) wake()
    }
    const message = (attempt: string) => {
      const waiting = this.#waiting.get(attempt)
      if (waiting === undefined) return
      const hints = waiting.hints.get(node) ?? this.#hintsOf(waiting)
      waiting.hints.set(node, hints)
      hints.notify()
    }
    return {
      message,
      up: stand,
      down: () => void this.#isSubscribed.delete(node),
      // Messages will never arrive, and the waiter stays queued until the server notices: it polls as often as the others.
      refused: stand,
    }
  }
  #hintsOf({ wake }: Waiting): Hints {
    const hints: Hints = new Hints(this.#clock, () => {
      wake()
      hints.queryDone()
    })
    return hints
  }
}
