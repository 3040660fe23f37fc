/**
 * `redis()` on a Cluster of three masters with a replica each, which take over: a master's latest grants are lost with it, and an old master
 * goes on until it hears no majority. Two clients may then hold the lock, which is expected.
 */
import { clusterLab } from '../cluster-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = clusterLab({
  about: 'redis: a Cluster of three masters with a replica each, an ioredis client in every process',
  lasts: [0.02, 0.2],
  lost: (ttl) => [
    {
      rules: ['exclusion', 'read-write', 'permits', 'tokens'],
      within: 2 * ttl + 2_000,
      why: 'a promotion in a Cluster can lose grants, and an old master goes on until it hears no majority: use replicas (docs/drivers/redis.md)',
    },
  ],
})
