/** Callers that wait for something of the session: a connection, or a proof. */

interface WaitingCall {
  readonly since: number
  readonly resolve: (sent: number) => void
  readonly reject: (error: unknown) => void
}

export class WaitingCalls {
  readonly #calls = new Set<WaitingCall>()

  get size(): number {
    return this.#calls.size
  }

  /**
   * Resolves with the time that the message was sent which fulfilled it. Rejects with the signal's reason.
   * @param since only a message sent then or later will do
   */
  wait(signal: AbortSignal, since: number): Promise<number> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const end = (settle: () => void) => {
        this.#calls.delete(call)
        signal.removeEventListener('abort', aborted)
        settle()
      }
      const aborted = () => end(() => reject(signal.reason))
      const call: WaitingCall = {
        since,
        resolve: (sent) => end(() => resolve(sent)),
        reject: (error) => end(() => reject(error)),
      }
      this.#calls.add(call)
      signal.addEventListener('abort', aborted)
    })
  }

  /** A message sent at `sent` was answered. */
  resolve(sent: number): void {
    for (const call of [...this.#calls]) if (call.since <= sent) call.resolve(sent)
  }

  reject(error: unknown): void {
    for (const call of [...this.#calls]) call.reject(error)
  }
}
