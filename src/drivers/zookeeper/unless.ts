/** Rejects with the signal's reason when that comes first; the work goes on. */
export function unless<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason)
    signal.addEventListener('abort', aborted, { once: true })
    const done = () => signal.removeEventListener('abort', aborted)
    work.then(resolve, reject).finally(done)
  })
}
