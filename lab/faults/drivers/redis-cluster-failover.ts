/**
 * `redis()` on a Cluster of three masters with a replica each, which take over: a master's latest grants are lost with it, and an old master
 * continues until it hears no majority. Until both are over the promoted one grants nothing. But one that was paused for longer than that first
 * executes the requests in its buffers, and may grant a lock that is held.
 */
import { clusterLab } from '../cluster-lab.js'
import { type LabDriver, secondHolder } from '../store.js'

export const lab: LabDriver = clusterLab({
  about: 'redis: a Cluster of three masters with a replica each, an ioredis client in every process',
  lasts: [0.02, 0.2],
  woken: (ttl) => [
    {
      rules: secondHolder,
      within: 2 * ttl + 2_000,
      why: 'a master that wakes executes what was waiting for it before it hears that it was replaced: use replicas (docs/drivers/redis.md)',
    },
  ],
})
