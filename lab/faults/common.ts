/** Faults for worker processes, with any store. */
import type { Fault } from './store.js'

/** @param shared a process that joins sees the same locks */
export function workerFaults(workers: number, shared: boolean): Fault[] {
  const subjects = Array.from({ length: workers }, (_, n) => `worker ${n}`)
  return [
    ...crowds(subjects),
    ...(shared ? [latecomer] : []),
    {
      kind: 'forced release',
      subjects: ['operator'],
      lasts: [0.05, 0.1],
      apart: 1_000,
      gentle: true,
      begin: ({ crew, amount }) => {
        crew.send(Math.floor(amount * crew.size), { do: 'force', choice: amount * 1_000 })
        return undefined
      },
    },
    {
      kind: 'pause worker',
      subjects,
      weight: 2,
      begin: ({ n, crew }) => {
        crew.pause(n)
        return () => crew.resume(n)
      },
    },
    {
      kind: 'block worker',
      subjects,
      weight: 2,
      begin: ({ n, crew, lasts }) => {
        crew.send(n, { do: 'block', ms: lasts })
        return undefined
      },
    },
    {
      kind: 'kill worker',
      subjects,
      weight: 2,
      lasts: [0.01, 0.02],
      begin: async ({ n, crew }) => {
        await crew.kill(n)
        return undefined
      },
    },
    {
      kind: 'wall clock of a worker',
      subjects,
      lasts: [0.5, 3],
      begin: ({ n, crew, amount, ttl }) => {
        const ms = Math.round((amount - 0.5) * 20 * ttl)
        crew.send(n, { do: 'wall', ms })
        return () => crew.send(n, { do: 'wall', ms: -ms })
      },
    },
  ]
}

/** Many waiters in one queue: all of them give up, or none. */
function crowds(subjects: readonly string[]): Fault[] {
  return [
    {
      kind: 'abort storm',
      subjects,
      lasts: [0.05, 0.5],
      gentle: true,
      begin: ({ n, crew, lasts }) => {
        crew.send(n, { do: 'crowd', size: 200, abortWithin: lasts })
        return undefined
      },
    },
    {
      kind: 'forty more wait',
      subjects,
      lasts: [0.5, 3],
      apart: 2_000,
      gentle: true,
      begin: ({ n, crew }) => {
        crew.send(n, { do: 'crowd', size: 40 })
        return undefined
      },
    },
  ]
}

/** A process that has never connected to the store, and works like all the others. */
const latecomer: Fault = {
  kind: 'a process joins late',
  subjects: ['latecomer'],
  lasts: [0.5, 6],
  gentle: true,
  begin: ({ crew, amount }) => crew.join(crew.size + Math.floor(amount * 1_000)),
}
