/** A grant: a majority of votes, renewed, repaired and released. */
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import { shared } from '../../core/mode.js'
import { tokenReserve } from '../../core/token.js'
import { RenewalOrder } from '../kit/renewal-order.js'
import type { Reply } from '../redis/client.js'
import { GarbledReply } from '../redis/reply-shapes.js'
import { isGarbled, type Node } from './node.js'
import { type Renewable, type Term, toArgument } from './renewals.js'
import { count, round } from './round.js'
import { runScript } from './run-script.js'
import type { Runtime } from './runtime.js'
import { downgrade, release, renew, vote } from './scripts.js'
import { voteArgs } from './votes.js'

export class Hold implements Grant, Renewable {
  readonly key: string
  readonly token: number
  validUntil: number
  readonly #runtime: Runtime
  #claim: Claim
  readonly #round: number
  #last: number
  readonly #renewals: RenewalOrder
  #releasing = false
  /** Servers that voted anew after they had seen greater ballots: another client may have held the lock in between. */
  readonly #minority = new Set<Node>()
  /** Servers that have confirmed the release. */
  readonly #notified = new Set<Node>()

  constructor(runtime: Runtime, claim: Claim, key: string, round: number, token: number, validUntil: number) {
    this.#runtime = runtime
    this.#claim = claim
    this.key = key
    this.#round = round
    this.token = token
    this.#last = token
    this.#renewals = new RenewalOrder(claim.ttl)
    this.validUntil = validUntil
  }

  get attempt(): string {
    return this.#claim.attempt
  }

  get releasing(): boolean {
    return this.#releasing
  }

  /**
   * A majority that votes again moves the deadline. Servers that have forgotten the vote are asked for it anew, with the same
   * ballot; such a vote counts unless the server has seen greater ballots since. Less than a majority leaves the old deadline in
   * force, unless a majority has voted for another attempt.
   */
  async renew(ttl: number): Promise<number | undefined> {
    this.#runtime.ensureAllowed(ttl)
    return this.#runtime.renewals.renew(this, ttl, this.#renewals.sent(ttl) !== undefined)
  }

  async release(): Promise<ReleaseResult> {
    this.#runtime.forget(this.#claim.attempt)
    const again = this.#releasing
    this.#releasing = true
    const { group, env, settings } = this.#runtime
    const keys = [this.key]
    const args = [this.attempt, String(this.#round), String(this.#last), String(settings.retention), '1']
    const reply = await round(
      env.clock,
      this.#runtime.timeout(this.#claim.ttl),
      group.nodes,
      (node) => this.#releaseVotes(node, keys, args),
      (soFar) => count(soFar, () => true) >= group.majority,
    )
    if (count(reply, () => true) < group.majority)
      throw new Error(`fewer than ${group.majority} servers confirmed the release`)
    if (count(reply, (answer) => answer === 'y') > group.nodes.length - group.majority) return 'released'
    return again || count(reply, (answer) => answer === 'o') > 0
      ? 'already-released'
      : this.#throwIfLost(reply)
  }

  nextReservedToken(): number | undefined {
    if (this.#claim.mode.kind !== 'exclusive' || this.#last - this.token >= tokenReserve) return undefined
    this.#last++
    return this.#last
  }

  /** Needs a majority: its servers then admit readers, and no writer can find a majority. */
  async downgrade(): Promise<void> {
    const { group, env, settings } = this.#runtime
    const keys = [this.key]
    const args = [this.#claim.attempt, String(this.#last), String(settings.retention)]
    const reply = await round(
      env.clock,
      this.#runtime.timeout(this.#claim.ttl),
      group.nodes,
      (node) => node.ask(downgrade, keys, args),
      (soFar) => count(soFar, ([letter]) => letter === 'y') >= group.majority,
    )
    this.#claim = { ...this.#claim, mode: shared }
    if (count(reply, ([letter]) => letter === 'y') < group.majority)
      throw new Error('fewer than a majority of servers downgraded it')
  }

  /** Some servers still had our vote, but too few to decide: until our deadline no other attempt can have had a majority. */
  #throwIfLost(reply: readonly unknown[]): ReleaseResult {
    const some = reply.some((answer) => answer === 'y')
    return some && this.#runtime.env.clock.now() < this.validUntil ? 'released' : 'lost'
  }

  counts(node: Node): boolean {
    return !this.#minority.has(node)
  }

  async prove(node: Node, term: Term): Promise<string> {
    const { group, settings, env } = this.#runtime
    const keys = [this.key, group.markerKey]
    const boot = node.identity?.boot ?? ''
    const renewed = await node.ask(renew, keys, [
      boot,
      this.#claim.attempt,
      toArgument(term),
      String(settings.retention),
    ])
    const answer = String(node.accept(renewed)[0])
    if (answer === 'y' && !this.counts(node)) return 'w'
    if (answer !== 'f' || this.#releasing) return answer
    const { retention } = settings
    const args = voteArgs({
      ...{ claim: this.#claim, term: toArgument(term), round: this.#round, ballot: this.token, rejoin: true },
      ...{ by: env.client, channel: undefined, alive: 0, retention },
    })
    const voting = { attempt: this.#claim.attempt, round: this.#round }
    const joined = String(node.accept(await node.ask(vote, keys, [boot, ...args], voting))[0])
    if (joined === 'w') this.#minority.add(node)
    return joined
  }

  /** A server that does not answer keeps its vote: it is asked again for as long as that could matter. */
  #releaseVotes(node: Node, keys: readonly string[], args: readonly string[]): Promise<string> {
    const { attempt, ttl } = this.#claim
    if (this.#notified.has(node)) return Promise.resolve('o')
    if (!node.mayHaveVoted(attempt))
      return Promise.reject(new Error('it never received a request of this attempt'))
    const failed = (error: unknown) => {
      const again = () => void this.#releaseVotes(node, keys, args).catch(() => undefined)
      if (!this.#runtime.again(ttl, this.validUntil, again)) node.forget(attempt)
      throw error
    }
    const answered = (reply: readonly Reply[]) => {
      if (isGarbled(reply)) return failed(new GarbledReply('EVALSHA', reply))
      node.forget(attempt)
      this.#notified.add(node)
      return String(reply[0])
    }
    return runScript(node.connection, release, keys, args, answered, failed)
  }
}
