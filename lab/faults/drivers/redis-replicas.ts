/** `redis({ replicas: 1 })` on a master and two replicas watched by three Sentinels: an old master behind a partition grants nothing that counts. */
import { sentinelLab } from '../sentinel-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = sentinelLab({
  about:
    'redis: a master, two replicas and three Sentinels, `replicas: 1`, an ioredis client in every process',
  replicas: 2,
  downAfter: 500,
  options: { replicas: 1, replicaTimeout: 100 },
})
