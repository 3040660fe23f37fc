/** holdfast in the scenes. Only ttl and wait are set, as each scene requires, and the options explained here. */
import { AcquireTimeoutError, createLocks } from 'holdfast'
import { redis } from 'holdfast/redis'
import { redlock } from 'holdfast/redlock'
import type { Redis } from 'ioredis'
import { type Lock, type Recipe, single } from './lock.js'

/** By default a request may take two seconds; a test on a busy machine is to be about the fault alone. */
export const holdfastRedis: Recipe = single('holdfast/redis', (client) =>
  adapt(redis({ client, commandTimeout: 15_000 })),
)
export const holdfastRedlock: Recipe = {
  title: 'holdfast/redlock',
  servers: 3,
  // By default a round takes at most half a second; a test on a busy machine is to be about the fault alone.
  open: (...clients: readonly Redis[]) => adapt(redlock({ clients, commandTimeout: 3_000 })),
}

function adapt(driver: Parameters<typeof createLocks>[0]): Lock {
  const locks = createLocks(driver)
  return {
    tryAcquire: (name, ttl) => locks.mutex(name).tryAcquire({ ttl }),
    acquire: (name, ttl, wait) => locks.mutex(name).acquire({ ttl, wait }).catch(undefinedIfTimedOut),
    run: async (name, ttl, wait, work) => {
      // By default it throws DeadlockError when it is entered again.
      const done = locks.mutex(name).run(() => work().then(() => true), { ttl, wait, reentrant: true })
      return (await done.catch(undefinedIfTimedOut)) === true
    },
    close: () => locks.close(),
  }
}

function undefinedIfTimedOut(error: unknown): undefined {
  if (!(error instanceof AcquireTimeoutError)) throw error
}
