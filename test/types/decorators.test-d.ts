/** What must and must not compile. Checked by tsc, not run. */
import type { Locks } from 'holdfast'
import { locked } from 'holdfast/decorators'

declare const locks: Locks

export class Compiles {
  @locked(locks, 'a')
  async none(): Promise<void> {}

  @locked(locks, 'a')
  async some(_a: number, _b: string): Promise<number> {
    return 1
  }

  @locked(locks, (a: number) => `a:${a}`)
  async first(_a: number, _b: string): Promise<number> {
    return 1
  }

  // @ts-expect-error the name is made of a number, the method takes text
  @locked(locks, (a: number) => `a:${a}`)
  async other(_a: string): Promise<number> {
    return 1
  }

  // @ts-expect-error a method that returns at once cannot wait for a lock
  @locked(locks, 'a')
  now(): number {
    return 1
  }

  // @ts-expect-error skipped, it would resolve with undefined
  @locked(locks, 'a', { whenHeld: 'skip' })
  async skipped(): Promise<number> {
    return 1
  }

  @locked(locks, 'a', { whenHeld: 'skip' })
  async maybe(): Promise<number | undefined> {
    return 1
  }
}
