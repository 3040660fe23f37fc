/** How much longer things may take because the machine is busy: a limit of wall time says little there. */
import { availableParallelism, loadavg } from 'node:os'

/** Tasks that are ready to run, for each processor, in the last minute; at least 1. Where the system does not count them it is 1. */
export function busyFactor(): number {
  return Math.max(1, (loadavg()[0] ?? 0) / availableParallelism())
}
