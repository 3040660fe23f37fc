/**
 * Being woken: one subscription on each server for all waits of this process, opened when something is first waited for. A
 * message names an attempt that should ask again now. It is only a hint, so nothing depends on its arrival: a wait also asks
 * again by itself.
 */
import type { Listening } from '../redis/client.js'
import type { Node } from './node.js'

export class Ears {
  readonly channel: string
  readonly #nodes: readonly Node[]
  readonly #wakes = new Map<string, () => void>()
  #listening: Listening[] | undefined

  constructor(nodes: readonly Node[], channel: string) {
    this.#nodes = nodes
    this.channel = channel
  }

  /** Calls `wake` whenever a server says that it is this attempt's turn to ask. Returns what ends that. */
  expect(attempt: string, wake: () => void): () => void {
    this.#wakes.set(attempt, wake)
    this.#listening ??= this.#nodes.map(({ connection }) => {
      const ear = { message: (text: string) => this.#wakes.get(text)?.(), up() {}, down() {}, refused() {} }
      return connection.listen(this.channel, ear, false)
    })
    return () => void this.#wakes.delete(attempt)
  }

  close(): void {
    for (const one of this.#listening ?? []) one.close()
    this.#listening = undefined
  }
}
