/** Which server is tried next, and after which pause. */
import type { Address } from '../options.js'
import { pauseBefore } from './heartbeat-timing.js'

export class ServerOrder {
  readonly #servers: readonly Address[]
  readonly #random: () => number
  /** Servers tried since the last connection. */
  #tried = 0
  #next = 0

  /** In random order, so that processes spread over the servers. */
  constructor(servers: readonly Address[], random: () => number) {
    const shuffled = [...servers]
    for (let i = shuffled.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1))
      const [a, b] = [shuffled[i], shuffled[j]]
      if (a !== undefined && b !== undefined) [shuffled[i], shuffled[j]] = [b, a]
    }
    this.#servers = shuffled
    this.#random = random
  }

  /** The pause before the next one, in ms. */
  pause(): number {
    return pauseBefore(this.#tried, this.#servers.length, this.#random())
  }

  next(): Address | undefined {
    this.#tried++
    return this.#servers[this.#next++ % this.#servers.length]
  }

  /** The next server is tried without a pause. */
  reset(): void {
    this.#tried = 0
  }
}
