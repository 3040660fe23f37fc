/**
 * Rung 7: Redlock. Three independent servers, the same SET NX PX on all of them; a client with a majority holds
 * the lock, for the rest of the ttl. One server may die, or forget.
 */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { byHand, type Lock, type Recipe } from './lock.js'
import { deleteIfMine } from './scripts.js'

/** Where the validity starts: before the requests are sent, or, as it is often written, at the replies. */
type From = 'request' | 'replies'

export const redlockByHand: Recipe = {
  title: 'Redlock',
  servers: 3,
  open: (...clients) => overMajority(clients, 'request'),
}
export const lateRedlock: Recipe = {
  title: 'Redlock, ttl from the replies',
  servers: 3,
  open: (...clients) => overMajority(clients, 'replies'),
}

function overMajority(clients: readonly Redis[], from: From): Lock {
  return byHand({
    async tryAcquire(name, ttl) {
      const id = randomUUID()
      const release = () =>
        majority(clients.map(async (client) => (await client.eval(deleteIfMine, 1, name, id)) === 1))
      const sent = performance.now()
      const won = await majority(
        clients.map(async (client) => (await client.set(name, id, 'PX', ttl, 'NX')) === 'OK'),
      )
      const validUntil = (from === 'request' ? sent : performance.now()) + ttl * 0.99 - 2
      if (won && performance.now() < validUntil) {
        return {
          release,
          get isHeld() {
            return performance.now() < validUntil
          },
        }
      }
      await release()
      return undefined
    },
  })
}

/** Did a majority say yes? Resolves as soon as that is decided, without waiting for a server that is down. */
function majority(votes: readonly Promise<boolean>[]): Promise<boolean> {
  const needed = Math.floor(votes.length / 2) + 1
  return new Promise((resolve) => {
    let yes = 0
    let no = 0
    for (const vote of votes) {
      void vote
        .catch(() => false)
        .then((said) => {
          if (said) yes++
          else no++
          if (yes === needed) resolve(true)
          if (no > votes.length - needed) resolve(false)
        })
    }
  })
}
