/** Others on the same server of a database, who are in the way. */
import type { Fault, Undo } from './store.js'

/** Somebody else's transaction keeps what is ours for a while, and is then rolled back. @param lock begins one way of it */
export function strangers<W>(ways: readonly W[], lock: (way: W) => Undo): Fault {
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

/** Everybody is thrown out, and somebody else is quicker to come back. @param connect rejects when there is no place left */
export function full<C>(
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
