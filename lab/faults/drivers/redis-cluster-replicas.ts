/** `redis({ replicas: 1 })` on a Cluster of three masters with a replica each, which take over: what only a lost master knew did not count. */
import { clusterLab } from '../cluster-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = clusterLab({
  about:
    'redis: a Cluster of three masters with a replica each, `replicas: 1`, an ioredis client in every process',
  options: { replicas: 1, replicaTimeout: 100 },
  lasts: [0.05, 2],
})
