/** holdfast on Redis in the scenes. Only ttl and wait are set, as each scene requires, and the options explained here. */
import { createLocks, type Locks } from 'holdfast'
import { guardedSet, StaleTokenError } from 'holdfast/guard'
import { redis } from 'holdfast/redis'
import { redlock } from 'holdfast/redlock'
import { type Recorder, recordLocks } from 'holdfast/verify'
import type { Redis } from 'ioredis'
import { type HoldfastLocks, toMutex } from './holdfast-shared.js'
import { maxTtl, type OnceLock, resource, type Way } from './lock.js'

/** Redlock has none. */
type Once = Locks['once']

function holdfast(
  title: string,
  locksOver: (clients: readonly Redis[], recorder: Recorder) => readonly [locks: HoldfastLocks, once?: Once],
): Way {
  return {
    title,
    open(clients, recorder) {
      const [locks, once] = locksOver(clients, recorder)
      return ours(locks, once, recorder)
    },
    async write(client, value, { token = 0 }) {
      try {
        await guardedSet(client, { key: resource, value, fence: { name: resource, token } })
        return 'written'
      } catch (error) {
        if (error instanceof StaleTokenError) return 'refused'
        throw error
      }
    },
  }
}

export const holdfastRedis: Way = holdfast('holdfast/redis', ([client], recorder) => {
  const locks = createLocks(redis({ client: client as Redis }))
  return [recordLocks(locks, recorder), locks.once]
})
/** Where a server forgets: everything that it may have forgotten must expire while somebody watches. */
export const holdfastRedisShort: Way = holdfast('holdfast/redis', ([client], recorder) => {
  const locks = createLocks(redis({ client: client as Redis, maxTtl: maxTtl }), { ttl: maxTtl })
  return [recordLocks(locks, recorder), locks.once]
})
export const holdfastRedlock: Way = holdfast('holdfast/redlock', (clients, recorder) => {
  // By default a round takes at most half a second; on a busy machine the scene is to be about its fault alone.
  const locks = createLocks(redlock({ clients, maxTtl: maxTtl, commandTimeout: 3_000 }))
  return [recordLocks(locks, recorder)]
})

function ours(locks: HoldfastLocks, once: Once | undefined, recorder: Recorder): OnceLock {
  return {
    ...toMutex(locks),
    async once(name, work) {
      if (once === undefined) throw new Error('this lock has no once')
      const about = { name, attempt: `${recorder.client}:once` }
      recorder.write({ ...about, op: 'acquire', phase: 'invoke', mode: 'exclusive' })
      let ran = false
      const result = await once(name, async ({ token }) => {
        ran = true
        recorder.write({ ...about, op: 'acquire', phase: 'ok', token })
        return work()
      })
      if (ran) recorder.write({ ...about, op: 'release', phase: 'invoke' })
      else recorder.write({ ...about, op: 'acquire', phase: 'fail', kind: 'was given the result' })
      return result
    },
  }
}
