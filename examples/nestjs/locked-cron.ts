import { Cron } from '@nestjs/schedule'
import type { JobOptions, Locks } from 'holdfast'

interface HasLocks {
  readonly locks: Locks
}

/**
 * `@Cron` on every host, and one of them runs the method: a host that finds it running, or run within `minHold`, skips it. `minHold`
 * covers clocks that differ; it should be longer than that difference and shorter than the time between two runs.
 */
export function LockedCron(expression: string, name: string, options: JobOptions = { minHold: '30s' }) {
  return (
    prototype: HasLocks,
    key: string,
    descriptor: TypedPropertyDescriptor<() => Promise<void>>,
  ): void => {
    const run = descriptor.value
    descriptor.value = async function (this: HasLocks) {
      await this.locks.job(name, options).run(async () => run?.call(this))
    }
    Cron(expression)(prototype, key, descriptor)
  }
}
