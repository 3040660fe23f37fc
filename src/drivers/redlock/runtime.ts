/** What all claims of one `redlock()` share: the servers, the grants in use, and what is still on its way to the servers. */
import type { Env } from '../../core/driver.js'
import type { AutoResetEvent } from '../kit/auto-reset-event.js'
import { MaxTtlError } from '../kit/max-ttl-error.js'
import { encode } from '../redis/keys.js'
import { Ballots } from './ballots.js'
import type { Hold } from './hold.js'
import type { Settings } from './options.js'
import { Renewals } from './renewals.js'
import { round } from './round.js'
import { Subscribers } from './subscribers.js'
import type { Voters } from './voters.js'

export class Runtime {
  readonly group: Voters
  readonly env: Env
  readonly settings: Settings
  readonly renewals: Renewals = new Renewals(this)
  readonly ballots: Ballots = new Ballots()
  readonly subscribers: Subscribers
  closed = false
  /** Grants in use, by attempt, so that a repeated claim gets its own grant. */
  readonly held: Map<string, Hold> = new Map()
  /** The pauses between rounds, so that `close()` ends them. */
  readonly pauses: Set<AutoResetEvent> = new Set()
  /** Releases of votes that no caller awaits. */
  readonly #releasing = new Set<Promise<unknown>>()
  readonly #later = new Set<() => void>()

  constructor(group: Voters, env: Env, settings: Settings) {
    this.group = group
    this.env = env
    this.settings = settings
    this.subscribers = new Subscribers(group.nodes, `${settings.prefix}redlock:${env.id()}`, env.clock)
  }

  /** `close()` waits for it. @param work never rejects */
  addRelease(work: Promise<unknown>): void {
    const release: Promise<unknown> = work.then(() => this.#releasing.delete(release))
    this.#releasing.add(release)
  }

  /** Runs `work` again later, if that is before `until`; false: it will not run. */
  again(ttl: number, until: number, work: () => void): boolean {
    const { clock } = this.env
    const at = clock.now() + Math.max(50, ttl / 6)
    if (at >= until || this.closed) return false
    const cancel = clock.at(
      at,
      () => {
        this.#later.delete(cancel)
        work()
      },
      { ref: false },
    )
    this.#later.add(cancel)
    return true
  }

  /** @throws RangeError for a ttl over `maxTtl`: a server excluded for `maxTtl` could have forgotten a lease that still lasts */
  ensureAllowed(ttl: number): void {
    const { maxTtl } = this.settings
    if (ttl > maxTtl) throw new MaxTtlError('redlock', ttl, maxTtl)
  }

  toKey(name: string): string {
    return `${this.settings.prefix}redlock{${encode(name)}}`
  }

  forget(attempt: string): void {
    this.held.delete(attempt)
  }

  /** How long one round for a lease of `ttl` may take, in ms. */
  timeout(ttl: number): number {
    return Math.min(this.settings.commandTimeout, Math.max(20, ttl / 5))
  }

  async close(): Promise<void> {
    this.closed = true
    for (const pause of this.pauses) pause.set()
    for (const cancel of this.#later) cancel()
    this.#later.clear()
    this.subscribers.close()
    this.held.clear()
    await round(
      this.env.clock,
      this.settings.commandTimeout,
      [...this.#releasing],
      (one) => one,
      () => false,
    )
    this.group.close()
  }
}
