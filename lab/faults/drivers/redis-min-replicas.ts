/** `redis()` on a master and two replicas watched by three Sentinels, with `min-replicas-to-write 1`: an old master behind a partition refuses. */
import { sentinelLab } from '../sentinel-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = sentinelLab({
  about:
    'redis: a master, two replicas and three Sentinels, `min-replicas-to-write 1`, an ioredis client in every process',
  replicas: 2,
  downAfter: 500,
  args: ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '1'],
})
