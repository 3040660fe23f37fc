/** A worker's application uses up the pool that it shares with the driver. */
import type { Fault } from './store.js'

export function exhaustPool(workers: number): Fault {
  return {
    kind: 'pool used up',
    subjects: Array.from({ length: workers }, (_, n) => `worker ${n}`),
    begin: ({ n, workerPool, lasts }) => {
      workerPool.send(n, { do: 'strain', ms: lasts })
      return undefined
    },
  }
}
