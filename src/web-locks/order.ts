/**
 * Requests of one manager for one name go to the store in the order of their calls. Stores that are asked over several connections
 * may see two that were sent together in the other order, so each is sent once the one before has its place in the line.
 */
export interface Place {
  /** Resolves when it may be sent. Rejects with the signal's reason. */
  turn(signal: AbortSignal | undefined): Promise<void>
  /** Its place in the line is known, or it needs none. Idempotent. */
  taken(): void
}

export class Order {
  /** When the last one of each name has its place. */
  readonly #last = new Map<string, Promise<void>>()

  stand(name: string): Place {
    const before = this.#last.get(name)
    let taken: () => void = () => undefined
    const mine = new Promise<void>((resolve) => (taken = resolve))
    // Who gave up before its turn leaves the order of the others as it is.
    const last = before === undefined ? mine : before.then(() => mine)
    this.#last.set(name, last)
    void last.then(() => {
      if (this.#last.get(name) === last) this.#last.delete(name)
    })
    return { turn: async (signal) => before && orAborted(before, signal), taken }
  }
}

async function orAborted(turn: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return turn
  signal.throwIfAborted()
  let aborted: () => void = () => undefined
  const abort = new Promise<never>((_, reject) => {
    aborted = () => reject(signal.reason)
    signal.addEventListener('abort', aborted)
  })
  try {
    await Promise.race([turn, abort])
  } finally {
    signal.removeEventListener('abort', aborted)
  }
}
