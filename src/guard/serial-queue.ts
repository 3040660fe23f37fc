/** One request at a time for each name, first come, first served. A name is remembered only while a request has or awaits its turn. */
export class SerialQueue {
  /** The end of the last turn of each name. */
  readonly #last = new Map<string, Promise<void>>()

  /** Resolves with the function that ends the turn, or with `undefined` when `signal` came first. */
  async enter(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    const before = this.#last.get(name)
    let end: () => void = () => undefined
    const mine = new Promise<void>((resolve) => (end = resolve))
    // A request that gives up before its turn leaves the order of the others as it is.
    const last = before === undefined ? mine : before.then(() => mine)
    this.#last.set(name, last)
    void last.then(() => {
      if (this.#last.get(name) === last) this.#last.delete(name)
    })
    if (await within(before, signal)) return end
    end()
    return undefined
  }
}

/** Did it come before `signal`? Rejects as `what` does. */
export async function within(what: Promise<unknown> | undefined, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) {
    what?.catch(() => undefined)
    return false
  }
  if (what === undefined) return true
  let stop: () => void = () => undefined
  const aborted = new Promise<false>((resolve) => {
    stop = () => resolve(false)
    signal.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([what.then(() => true), aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
