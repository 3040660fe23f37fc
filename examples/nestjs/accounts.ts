import { Inject, Injectable } from '@nestjs/common'
import type { Locks } from 'holdfast'
import { currentLease } from 'holdfast/decorators'
import { LOCKS, UseLock } from 'holdfast/nestjs'

@Injectable()
export class Accounts {
  readonly balances: Map<number, number> = new Map([[42, 100]])
  readonly tokens: number[] = []

  readonly #locks: Locks

  constructor(@Inject(LOCKS) locks: Locks) {
    this.#locks = locks
  }

  /** One at a time for each account, on all hosts. */
  @UseLock((id: number) => `account:${id}`, { wait: 5_000 })
  async redeem(id: number, points: number): Promise<number> {
    const before = this.balances.get(id) ?? 0
    await this.#database()
    const lease = currentLease()
    lease?.assertHeld()
    this.tokens.push(lease?.token ?? 0)
    this.balances.set(id, before - points)
    return before - points
  }

  /** One host runs it, the others skip it. */
  @UseLock('report:nightly', { whenHeld: 'skip' })
  async report(): Promise<string | undefined> {
    await this.#database()
    return 'written'
  }

  async whoHolds(id: number): Promise<number> {
    return (await this.#locks.inspect(`account:${id}`)).holders.length
  }

  /** A round trip, in which anybody else could write. */
  async #database(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
