/** Interference by other clients of the same database server. */
import type { Fault, Undo } from './store.js'

/** Another client's transaction locks our rows for a while, then rolls back. @param lock starts one kind of it */
export function externalTransactions<W>(ways: readonly W[], lock: (way: W) => Undo): Fault {
  return {
    kind: 'a stranger locks rows',
    subjects: ['stranger'],
    weight: 3,
    lasts: [0.1, 3],
    begin: ({ amount }) => {
      const way = ways[Math.floor(amount * ways.length)]
      return way === undefined ? undefined : lock(way)
    },
  }
}

/** All connections are closed, and another client takes the free ones first. @param connect rejects if no connection is left */
export function connectionsTaken<C>(
  throwOut: () => Promise<unknown>,
  connect: () => Promise<C>,
  leave: (connection: C) => unknown,
): Fault {
  return {
    kind: 'server: no connections left',
    subjects: ['server 0'],
    lasts: [0.1, 2],
    begin: async () => {
      const taken: C[] = []
      await throwOut()
      const one = async () => void taken.push(await connect())
      for (let refused = false; !refused && taken.length < 60; ) {
        const came = await Promise.allSettled(Array.from({ length: 10 }, one))
        refused = came.some(({ status }) => status === 'rejected')
      }
      return async () => {
        await Promise.all(taken.map(leave))
      }
    },
  }
}
