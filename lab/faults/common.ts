/** What can be done to any worker process, whatever the store. */
import type { Fault } from './store.js'

export function workerFaults(workers: number): Fault[] {
  const subjects = Array.from({ length: workers }, (_, n) => `worker ${n}`)
  return [
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
