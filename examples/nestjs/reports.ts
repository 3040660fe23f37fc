import { Inject, Injectable, SetMetadata } from '@nestjs/common'
import type { Locks } from 'holdfast'
import { LOCKS } from 'holdfast/nestjs'
import { LockedCron } from './locked-cron.js'

/** By second, the hosts that ran it: what a table of runs would be. */
export const runs: string[] = []

@Injectable()
export class Reports {
  readonly locks: Locks

  constructor(@Inject(LOCKS) locks: Locks) {
    this.locks = locks
  }

  @LockedCron('* * * * * *', 'report:every-second', { minHold: 600 })
  @SetMetadata('team', 'billing')
  async everySecond(): Promise<void> {
    runs.push(new Date().toISOString().slice(0, 19))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
