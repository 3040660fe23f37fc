/**
 * One claim: rounds of votes until it has a majority, is refused, or is given up.
 * Long because the life of a claim is one state machine.
 *
 * ```
 *              a majority votes for the ballot ─────────────────────────────► Hold
 *   round n ──┤
 *    ▲         └ decided against, or out of time: its votes are released ──┐
 *    └── pause: back off after split votes, or until woken or expired ◄────┤ a single attempt that is
 *                                                                          └ refused, or the wait is over ──► nothing
 * ```
 * A single attempt repeats a round only while nobody else is seen to have a majority. What a round's replies mean is in
 * `round-outcome.ts`.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Grant, Wait, WaitStatus } from '../../core/driver.js'
import { TimeLimit } from '../../core/time-limit.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import type { Reply } from '../redis/client.js'
import { GarbledReply } from '../redis/reply-shapes.js'
import { Hold } from './hold.js'
import type { Node } from './node.js'
import { isHopeless } from './refusal.js'
import { type NodeReply, round } from './round.js'
import { blockedBy, isDecided, noMajority, pauseAfter, wouldVote } from './round-outcome.js'
import type { Runtime } from './runtime.js'
import { release, vote } from './scripts.js'
import { isTaken, parseHolder, unreachableChannel, type Vote, voteArgs, winner } from './votes.js'

/** How many rounds a single attempt makes while no other attempt is seen to have a majority. */
const maxRounds = 8
/** About the duration of a round, in ms: after split votes, contenders wait up to 2, 4, 8 … times as long before the next round. */
const splitDelay = 5

export class Waiter {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #key: string
  readonly #pause: AutoResetEvent
  /** Waits in the servers' queues, which wake it; false: a single attempt. */
  readonly #queues: boolean
  /** The votes of the current round. */
  #votes: readonly NodeReply<Vote>[] = []
  /** The greatest ballot that a refusal named, in any round. */
  #ballot = 0
  /** Has the wait been informed of what blocks it? */
  #reported = false

  constructor(runtime: Runtime, claim: Claim, wait: Wait) {
    this.#runtime = runtime
    this.#claim = claim
    this.#wait = wait
    this.#key = runtime.toKey(claim.name)
    this.#pause = new AutoResetEvent(runtime.env.clock)
    this.#queues = wait.remaining() > 0
  }

  async acquire(): Promise<Grant | undefined> {
    const { pauses } = this.#runtime
    pauses.add(this.#pause)
    try {
      return await (this.#queues ? this.#acquireWaiting() : this.#tryOnce())
    } finally {
      pauses.delete(this.#pause)
    }
  }

  async #tryOnce(): Promise<Grant | undefined> {
    const { group, env } = this.#runtime
    const { ttl } = this.#claim
    const begun = env.clock.now()
    // A try is given up after one ttl: every server's reply must be known by then. A round takes a fifth of the ttl.
    await group.ready(ttl / 2)
    for (let n = 1; ; n++) {
      const outcome = await this.#round(n)
      if (outcome instanceof Hold) return outcome
      const inTime = n < maxRounds && env.clock.now() < begun + 0.7 * ttl && !this.#isOver
      const again = inTime && outcome.error === undefined && !isTaken(this.#votes, group.majority)
      this.#releaseVotes(n, !again)
      if (outcome.error !== undefined) throw outcome.error
      if (!again) return undefined
      // Back off after a split vote; retry immediately only with a greater ballot.
      if (n > 1 || !wouldVote(this.#votes, group.majority))
        await this.#pause.wait(splitDelay * 2 ** n * env.random())
    }
  }

  async #acquireWaiting(): Promise<Grant | undefined> {
    const { group, env, settings, subscribers } = this.#runtime
    const pause = this.#pause
    const stale = group.nodes.map(({ untrusted }) => untrusted)
    const unwarn = this.#warnIfSilent()
    const unsubscribe = subscribers.expect(this.#claim.attempt, pause.set)
    // Created only when it has to wait: the signal costs more than a vote.
    let signal: AbortSignal | undefined
    try {
      for (let n = 1; !this.#isOver; n++) {
        await group.ready()
        const outcome = await this.#round(n)
        if (outcome instanceof Hold) return await this.#unlessClosed(outcome)
        const hopeless = isHopeless(this.#votes, group.majority, stale)
        this.#releaseVotes(n, hopeless)
        if (hopeless && outcome.error !== undefined) throw outcome.error
        this.#reported = true
        this.#wait.report?.(outcome)
        if (signal === undefined) {
          signal = this.#wait.signal
          signal.addEventListener('abort', pause.set)
        }
        if (!this.#isOver) await pause.wait(pauseAfter(outcome, settings.retryDelay, env.random()))
      }
      this.#releaseVotes(0, true)
      return undefined
    } finally {
      unwarn()
      unsubscribe()
      signal?.removeEventListener('abort', pause.set)
    }
  }

  get #isOver(): boolean {
    return this.#wait.ended || this.#runtime.closed
  }

  async #unlessClosed(hold: Hold): Promise<Hold | undefined> {
    if (!this.#runtime.closed) return hold
    await hold.release()
    return undefined
  }

  /** For a wait that may end before its first round: just before its end, reports what the servers have replied by then. */
  #warnIfSilent(): () => void {
    const { env, settings, group } = this.#runtime
    const left = this.#wait.remaining()
    if (left > 2 * settings.commandTimeout) return () => undefined
    const report = () => {
      if (!this.#reported) this.#wait.report?.({ error: noMajority(this.#votes, group) })
    }
    const limit = new TimeLimit(env.clock, left - Math.min(left / 4, 50), report).armSoon()
    return () => limit.stop()
  }

  /** Asks all servers for their vote. Resolves with the hold, or with what blocks the claim. */
  async #round(n: number): Promise<Hold | WaitStatus> {
    const { group, env } = this.#runtime
    const { attempt, ttl } = this.#claim
    const keys = [this.#key, group.markerKey]
    const argsFor = this.#voteArgs(n, this.#runtime.ballots.next(group.nodes, group.majority, this.#ballot))
    const voting = { attempt, round: n }
    const sent = env.clock.now()
    this.#votes = await round(
      env.clock,
      this.#runtime.timeout(ttl),
      group.nodes,
      (node) =>
        node.askFor(vote, keys, [node.identity?.boot ?? '', ...argsFor(node)], voting, (reply) =>
          this.#read(node, reply),
        ),
      (soFar) => {
        this.#votes = soFar
        return isDecided(soFar, group)
      },
    )
    const token = winner(this.#votes, group.majority)
    const validUntil = deadline(sent, ttl)
    if (token !== undefined && env.clock.now() < validUntil) {
      const hold = new Hold(this.#runtime, this.#claim, this.#key, n, token, validUntil)
      this.#runtime.held.set(attempt, hold)
      return hold
    }
    if (!isDecided(this.#votes, group))
      for (const [place, node] of group.nodes.entries())
        if (this.#votes[place] === undefined) node.silent = true
    return blockedBy(this.#votes, group)
  }

  /** The arguments of `vote`, made once for all servers that can wake this process, and once for all others. */
  #voteArgs(n: number, ballot: number): (node: Node) => readonly string[] {
    const { env, settings, subscribers } = this.#runtime
    const { retention, retryDelay } = settings
    const claim = this.#claim
    const alive = 3 * retryDelay + this.#runtime.timeout(claim.ttl) + 1_000
    const argsWith = (channel: string | undefined) =>
      voteArgs({ claim, round: n, ballot, rejoin: false, by: env.client, channel, alive, retention })
    let reachable: readonly string[] | undefined
    let unreachable: readonly string[] | undefined
    return (node) => {
      const channel = this.#queues ? subscribers.at(node) : undefined
      if (channel !== undefined) {
        reachable ??= argsWith(channel)
        return reachable
      }
      unreachable ??= argsWith(this.#queues ? unreachableChannel : undefined)
      return unreachable
    }
  }

  #read(node: Node, reply: readonly Reply[]): Vote {
    if (String(reply[0]) === 'c')
      throw new Error('server clock is beyond 2112; ballots cannot be represented')
    const letter = String(node.accept(reply)[0])
    const ballot = Number(letter === 'y' ? reply[3] : reply[1])
    if (!Number.isSafeInteger(ballot)) throw new GarbledReply('EVALSHA (vote)', reply)
    // Counts even if it arrives after the end of its round.
    if (letter !== 'y') this.#ballot = Math.max(this.#ballot, ballot)
    return {
      letter,
      ballot,
      holder: letter === 'n' ? parseHolder(reply, 4) : undefined,
      position: letter === 'n' || letter === 'r' ? Number(reply[3]) : 0,
    }
  }

  /**
   * Releases the votes on all servers that were asked: those that have not answered may have voted, too, or will. No caller awaits
   * this; a vote whose release does not arrive expires by its ttl.
   * @param n the round, or any with `leave`, which also leaves the servers' queues
   */
  #releaseVotes(n: number, leave: boolean): void {
    const { attempt } = this.#claim
    const { group, settings } = this.#runtime
    const args = [attempt, String(n), '0', String(settings.retention), leave ? '1' : '0']
    for (const node of group.nodes) {
      if (!node.mayHaveVoted(attempt, leave ? undefined : n)) continue
      const released = node.run(release, [this.#key], args).catch(() => undefined)
      this.#runtime.addRelease(released.then(() => leave && node.forget(attempt)))
    }
  }
}
