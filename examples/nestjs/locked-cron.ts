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
    if (run === undefined) throw new TypeError('@LockedCron decorates methods')
    const locked = async function (this: HasLocks) {
      await this.locks.job(name, options).run(() => run.call(this))
    }
    // What the decorators below have noted on the method.
    for (const noted of Reflect.getOwnMetadataKeys(run))
      Reflect.defineMetadata(noted, Reflect.getOwnMetadata(noted, run), locked)
    descriptor.value = locked
    Cron(expression)(prototype, key, descriptor)
  }
}
