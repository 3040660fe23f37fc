/** Locks in Redis by hand, as commonly written. */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Recorder } from 'holdfast/verify'
import type { Redis } from 'ioredis'
import { until } from '../../test/support/until.js'
import { type OnceLock, resource, sceneTimeout, type Way } from './lock.js'
import { type Release, recordedLock } from './recorded-lock.js'

/** KEYS: the lock. ARGV: 1 id of the attempt. Result: 1 it was ours and is gone, 0 it was not ours. */
const deleteIfMine = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`

type Take = (name: string, ttl: number) => Promise<Release | undefined>

function naiveLock(title: string, takeWith: (clients: readonly [Redis, ...Redis[]]) => Take): Way {
  return {
    title,
    open: (clients, recorder) => polling(takeWith(clients as [Redis, ...Redis[]]), recorder),
    async write(client, value) {
      await client.set(resource, value)
      return 'written'
    },
  }
}

export const setnxExpire: Way = naiveLock('SETNX, EXPIRE', ([client]) => async (name, ttl) => {
  if ((await client.setnx(name, 'taken')) === 0) return undefined
  await client.pexpire(name, ttl)
  return () => client.del(name)
})

export const setNxDel: Way = naiveLock('SET NX PX, DEL', ([client]) => async (name, ttl) => {
  if ((await client.set(name, 'taken', 'PX', ttl, 'NX')) === null) return undefined
  return () => client.del(name)
})

export const setNxCompare: Way = naiveLock('SET NX PX, delete if mine', ([client]) => async (name, ttl) => {
  const id = randomUUID()
  if ((await client.set(name, id, 'PX', ttl, 'NX')) === null) return undefined
  return () => client.eval(deleteIfMine, 1, name, id)
})

export const naiveMajority: Way = naiveLock('SET NX PX on most of three', (clients) => async (name, ttl) => {
  const id = randomUUID()
  const votes = clients.map((client) => client.set(name, id, 'PX', ttl, 'NX').then((reply) => reply === 'OK'))
  // One server may be unreachable; nobody waits for it.
  const release = () => {
    const gone = clients.map(async (client) => (await client.eval(deleteIfMine, 1, name, id)) === 1)
    return Promise.race([most(gone), pause(500, false, { ref: false })])
  }
  if (await most(votes)) return release
  void release()
  return undefined
})

/** Resolves as soon as the result is decided, without waiting for an unreachable server. */
function most(votes: readonly Promise<boolean>[]): Promise<boolean> {
  const needed = Math.floor(votes.length / 2) + 1
  let [yes, no] = [0, 0]
  return new Promise((resolve) => {
    for (const vote of votes) {
      void vote
        .catch(() => false)
        .then((reply) => {
          if (reply) yes++
          else no++
          if (yes === needed) resolve(true)
          if (no > votes.length - needed) resolve(false)
        })
    }
  })
}

function polling(take: Take, recorder: Recorder): OnceLock {
  const lock: OnceLock = {
    take: (name, ttl, wait) =>
      recordedLock(recorder, { name, wait }, async () => {
        const end = performance.now() + wait
        let free = await take(name, ttl)
        while (free === undefined && performance.now() < end) {
          await pause(20)
          free = await take(name, ttl)
        }
        return free
      }),
    async once(name, work) {
      const held = await until(() => lock.take(name, 5_000, sceneTimeout), { within: sceneTimeout })
      try {
        return await work()
      } finally {
        await held.release()
      }
    },
    close: async () => undefined,
  }
  return lock
}

export const plainLocks: readonly Way[] = [setnxExpire, setNxDel, setNxCompare, naiveMajority]
