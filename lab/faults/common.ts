/** Faults for worker processes, with any store. */
import type { Fault } from './store.js'

/** @param shared a process that joins sees the same locks */
export function workerFaults(workers: number, shared: boolean): Fault[] {
  const subjects = Array.from({ length: workers }, (_, n) => `worker ${n}`)
  return [
    ...burstFault(subjects),
    ...(shared ? [lateWorker] : []),
    {
      kind: 'forced release',
      subjects: ['operator'],
      lasts: [0.05, 0.1],
      apart: 1_000,
      gentle: true,
      begin: ({ workerPool, amount }) => {
        workerPool.send(Math.floor(amount * workerPool.size), { do: 'force', choice: amount * 1_000 })
        return undefined
      },
    },
    {
      kind: 'pause worker',
      subjects,
      weight: 2,
      begin: ({ n, workerPool }) => {
        workerPool.pause(n)
        return () => workerPool.resume(n)
      },
    },
    {
      kind: 'block worker',
      subjects,
      weight: 2,
      begin: ({ n, workerPool, lasts }) => {
        workerPool.send(n, { do: 'block', ms: lasts })
        return undefined
      },
    },
    {
      kind: 'kill worker',
      subjects,
      weight: 2,
      lasts: [0.01, 0.02],
      begin: async ({ n, workerPool }) => {
        await workerPool.kill(n)
        return undefined
      },
    },
    {
      kind: 'wall clock of a worker',
      subjects,
      lasts: [0.5, 3],
      begin: ({ n, workerPool, amount, ttl }) => {
        const ms = Math.round((amount - 0.5) * 20 * ttl)
        workerPool.send(n, { do: 'wall', ms })
        return () => workerPool.send(n, { do: 'wall', ms: -ms })
      },
    },
  ]
}

/** Many waiters in one queue: all of them give up, or none. */
function burstFault(subjects: readonly string[]): Fault[] {
  return [
    {
      kind: 'abort storm',
      subjects,
      lasts: [0.05, 0.5],
      gentle: true,
      begin: ({ n, workerPool, lasts }) => {
        workerPool.send(n, { do: 'crowd', size: 200, abortWithin: lasts })
        return undefined
      },
    },
    {
      kind: 'forty more wait',
      subjects,
      lasts: [0.5, 3],
      apart: 2_000,
      gentle: true,
      begin: ({ n, workerPool }) => {
        workerPool.send(n, { do: 'crowd', size: 40 })
        return undefined
      },
    },
  ]
}

/** A process that has never connected to the store, and works like all the others. */
const lateWorker: Fault = {
  kind: 'a process joins late',
  subjects: ['latecomer'],
  lasts: [0.5, 6],
  gentle: true,
  begin: ({ workerPool, amount }) => workerPool.join(workerPool.size + Math.floor(amount * 1_000)),
}
