/**
 * `redis()` on a master and a replica watched by three Sentinels: promotions with everything copied, and with the newest writes lost.
 * Nothing stops an old master that does not know it has been replaced: two clients then hold the lock, which is expected.
 */
import { sentinelLab } from '../sentinel-lab.js'
import { type LabDriver, secondHolder } from '../store.js'

export const lab: LabDriver = sentinelLab({
  about: 'redis: a master, a replica and three Sentinels, an ioredis client in every process',
  replicas: 1,
  downAfter: 500,
  twoMasters: (ttl) => [
    {
      rules: secondHolder,
      within: 2 * ttl + 2_000,
      why: 'an old master that wakes up or is cut off goes on granting until it hears that it is none, each with tokens of its own (docs/drivers/redis.md)',
    },
  ],
})
