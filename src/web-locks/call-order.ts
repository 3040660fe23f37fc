/**
 * Requests of one manager go to the store in the order of their calls, those for one name one after the other: a
 * store reached over several connections may see two requests that were sent together in the other order, so each is
 * sent once the one before has its queue entry.
 *
 * Requests for different names are sent together, but none calls back before all earlier ones are decided: held, or
 * known to wait. So `query` sees every request made before it.
 */
export interface QueuedCall {
  /** Resolves when the request may be sent. Rejects with the signal's reason. */
  turn(signal: AbortSignal | undefined): Promise<void>
  /** Its position in the queue is known, or it needs none: the next request for this name may be sent. Idempotent. */
  queued(): void
  /** Its callback has been called, it waits in the store, or it has ended. Idempotent. */
  decided(): void
  /** Resolves once every earlier request is decided. */
  readonly earlier: Promise<unknown>
}

export class CallOrder {
  /** For each name, resolves once its last request has its queue entry. */
  readonly #last = new Map<string, Promise<void>>()
  #decided: Promise<unknown> = Promise.resolve()

  enqueue(name: string): QueuedCall {
    const before = this.#last.get(name)
    let queued: () => void = () => undefined
    const mine = new Promise<void>((resolve) => (queued = resolve))
    // A request that gave up before its turn leaves the order of the others as it is.
    const last = before === undefined ? mine : before.then(() => mine)
    this.#last.set(name, last)
    void last.then(() => {
      if (this.#last.get(name) === last) this.#last.delete(name)
    })
    let decided: () => void = () => undefined
    const earlier = this.#decided
    this.#decided = Promise.all([earlier, new Promise<void>((resolve) => (decided = resolve))])
    return { turn: async (signal) => before && orAborted(before, signal), queued, decided, earlier }
  }

  /** Resolves once every request made so far is decided. */
  settled(): Promise<unknown> {
    return this.#decided
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
