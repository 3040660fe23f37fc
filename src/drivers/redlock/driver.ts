/**
 * The algorithm: ask all servers at once for their vote on one ballot; a majority holds the lock. A round is decided as early as
 * possible; a minority is released at once, on all servers, so that contenders with split votes do not block each other.
 *
 * A server votes only for ballots greater than all it has voted for. Two majorities share a server, so a later holder's ballot is
 * greater than an earlier one's: the ballot is the token, in the same round trip. The first ballot of a wait comes from the servers'
 * clocks. Each refusal names a ballot, and the next round asks with a greater one. A slow round does no harm: a server does not by
 * itself raise the ballot it named. A ballot reported for one name is not used for others: a server whose clock is far ahead raises
 * only the ballots of locks that cannot be acquired without it.
 * Long because the whole algorithm is in one file: rounds, waits and what they leave behind.
 */
import { deadline } from '../../core/clock.js'
import type {
  Claim,
  DriverFactory,
  Env,
  Grant,
  LockStatus,
  Traits,
  Wait,
  WaitStatus,
} from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { orAborted } from '../../core/or-aborted.js'
import { TimeLimit } from '../../core/time-limit.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { MaxTtlError } from '../kit/max-ttl-error.js'
import { connect, type Reply } from '../redis/client.js'
import { encode } from '../redis/keys.js'
import { GarbledReply } from '../redis/reply-shapes.js'
import { withoutLogin } from '../redis/without-login.js'
import { Hold } from './hold.js'
import { lockStatus } from './inspect.js'
import { broke, Node, notIntroduced, notSent } from './node.js'
import { parseOptions, type RedlockOptions, type Settings } from './options.js'
import { isHopeless, Refusal } from './refusal.js'
import { Renewals } from './renewals.js'
import { count, type NodeReply, round } from './round.js'
import { force, inspect, latestClock, release, retentionPassed, vote } from './scripts.js'
import { Subscribers } from './subscribers.js'
import { Voters } from './voters.js'
import { isTaken, mostNamed, parseHolder, unreachableChannel, type Vote, voteArgs, winner } from './votes.js'

/** How many rounds a single attempt makes while no other attempt is seen to have a majority. */
const maxRounds = 8
/** About the duration of a round, in ms: after split votes, contenders wait up to 2, 4, 8 … times as long before the next round. */
const splitDelay = 5

export interface RedlockTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared']
  readonly fair: false
  readonly shared: true
}

const traits: RedlockTraits = {
  // Majorities cannot count permits: with five servers and two permits each, three holders find a majority.
  modes: ['exclusive', 'shared'] as const,
  fair: false,
  minTtl: 100,
  shared: true,
}

/**
 * @throws TypeError or RangeError for invalid options, before any I/O; BackendError on first use when two clients lead to one server
 */
export function redlock(options: RedlockOptions): DriverFactory<RedlockTraits> {
  const settings = parseOptions(options)
  return (env) => {
    const nodes = options.clients.map((client, place) => {
      const connection = connect(client, env.clock, `client ${place}`)
      if (connection.cluster) {
        throw new TypeError(
          `redlock: client ${place} is a Cluster; give it independent servers, or use redis() for the Cluster`,
        )
      }
      return new Node(connection, place, env.clock)
    })
    const driver = new Redlock(new Voters(nodes, env, settings), env, settings)
    return {
      name: 'redlock',
      // A ttl including it must fit into `maxTtl`.
      traits: Object.freeze({ ...traits, maxLockDelay: Math.floor(settings.maxTtl * 0.49) }),
      acquire: (claim, wait) => driver.acquire(claim, wait),
      inspect: (name) => driver.inspect(name),
      forceRelease: (name) => driver.forceRelease(name),
      close: () => driver.close(),
    }
  }
}

/** What one wait has learnt so far. */
interface RoundReplies {
  /** The results of the current round. */
  reply: readonly NodeReply<Vote>[]
  /** Has the wait been informed of what blocks it? */
  reported: boolean
  /** The greatest ballot that a refusal named, in any round. */
  ballot: number
}

const ascending = (a: number, b: number) => a - b

const noReplies = (): RoundReplies => ({ reply: [], reported: false, ballot: 0 })

/** The driver behind `redlock()`, with the state its grants share. */
export class Redlock {
  readonly group: Voters
  readonly env: Env
  readonly settings: Settings
  readonly renewals: Renewals = new Renewals(this)
  /** The last time taken from the servers' clocks, so that no time is used twice. */
  #time = 0
  #closed = false
  /** Grants in use, so that a repeated claim gets its own grant. */
  readonly #held = new Map<string, Hold>()
  /** Current waits, by attempt. A repeated claim joins its wait: a round of a second wait would end a vote of the first. */
  readonly #asking = new Map<string, Promise<Grant | undefined>>()
  readonly #subscribers: Subscribers
  readonly #pauses = new Set<AutoResetEvent>()
  /** Pending releases of votes that no caller awaits. */
  readonly #leaving = new Set<Promise<unknown>>()
  readonly #later = new Set<() => void>()

  constructor(group: Voters, env: Env, settings: Settings) {
    this.group = group
    this.env = env
    this.settings = settings
    this.#subscribers = new Subscribers(group.nodes, `${settings.prefix}redlock:${env.id()}`, env.clock)
  }

  async acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    if (this.#closed) throw new BackendError('redlock', 'these locks were closed', { closed: true })
    this.ensureAllowed(claim.ttl)
    const known = this.#held.get(claim.attempt)
    if (known !== undefined) return known
    if (wait.remaining() <= 0) return this.#try(claim, wait)
    const before = this.#asking.get(claim.attempt)
    if (before !== undefined) return this.#join(before, claim, wait)
    const asking = this.#wait(claim, wait).finally(() => this.#asking.delete(claim.attempt))
    this.#asking.set(claim.attempt, asking)
    return asking
  }

  /** Resolves with the grant of the wait that the same claim already has; if that wait ends without one, this one continues by itself. */
  async #join(before: Promise<Grant | undefined>, claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const grant = await orAborted(before, wait.signal).catch(() => undefined)
    if (wait.ended || this.#closed) return undefined
    return grant ?? this.acquire(claim, wait)
  }

  async #try(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const { clock } = this.env
    const begun = clock.now()
    // A try is given up after one ttl: every server's reply must be known by then. A round takes a fifth of the ttl.
    await this.group.ready(claim.ttl / 2)
    const replies = noReplies()
    const pause = new AutoResetEvent(clock)
    this.#pauses.add(pause)
    try {
      for (let n = 1; ; n++) {
        const outcome = await this.#round(claim, n, false, replies)
        if (outcome instanceof Hold) return outcome
        const inTime = n < maxRounds && clock.now() < begun + 0.7 * claim.ttl && !wait.ended && !this.#closed
        const again = inTime && outcome.error === undefined && !isTaken(replies.reply, this.group.majority)
        this.#releaseVotes(claim, n, !again)
        if (outcome.error !== undefined) throw outcome.error
        if (!again) return undefined
        // Back off after a split vote; retry immediately only with a greater ballot.
        if (n > 1 || !this.#wouldVote(replies.reply))
          await pause.wait(splitDelay * 2 ** n * this.env.random())
      }
    } finally {
      this.#pauses.delete(pause)
    }
  }

  async #wait(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const pause = new AutoResetEvent(this.env.clock)
    const replies = noReplies()
    const stale = this.group.nodes.map(({ untrusted }) => untrusted)
    const unwarn = this.#warnIfSilent(wait, replies)
    const unsubscribed = this.#subscribers.expect(claim.attempt, pause.set)
    this.#pauses.add(pause)
    // Created only when it has to wait: the signal costs more than a vote.
    let signal: AbortSignal | undefined
    try {
      for (let n = 1; !wait.ended && !this.#closed; n++) {
        await this.group.ready()
        const outcome = await this.#round(claim, n, true, replies)
        if (outcome instanceof Hold) {
          if (!this.#closed) return outcome
          await outcome.release()
          return undefined
        }
        const hopeless = isHopeless(replies.reply, this.group.majority, stale)
        this.#releaseVotes(claim, n, hopeless)
        if (hopeless && outcome.error !== undefined) throw outcome.error
        replies.reported = true
        wait.report?.(outcome)
        if (signal === undefined) {
          signal = wait.signal
          signal.addEventListener('abort', pause.set)
        }
        if (!wait.ended && !this.#closed) await pause.wait(this.#delay(outcome))
      }
      this.#releaseVotes(claim, 0, true)
      return undefined
    } finally {
      unwarn()
      unsubscribed()
      this.#pauses.delete(pause)
      signal?.removeEventListener('abort', pause.set)
    }
  }

  /** For a wait that may end before its first round: just before its end, reports what the servers have replied by then. */
  #warnIfSilent(wait: Wait, replies: RoundReplies): () => void {
    const { clock } = this.env
    const left = wait.remaining()
    if (left > 2 * this.settings.commandTimeout) return () => undefined
    const report = () => {
      if (!replies.reported) wait.report?.({ error: this.#reportError(replies.reply) })
    }
    const limit = new TimeLimit(clock, left - Math.min(left / 4, 50), report).armSoon()
    return () => limit.stop()
  }

  async inspect(name: string): Promise<LockStatus> {
    const { group } = this
    await group.ready()
    const all = await round(
      this.env.clock,
      this.settings.commandTimeout,
      group.nodes,
      (node) => node.ask(inspect, [this.toKey(name)], []),
      () => false,
    )
    if (count(all, () => true) < group.majority) throw this.#reportError(all)
    return lockStatus(name, all, group.majority)
  }

  async forceRelease(name: string): Promise<number> {
    const { group, settings } = this
    const { holders } = await this.inspect(name)
    if (holders.length === 0) return 0
    const seen = ` ${holders.map(({ attempt }) => attempt).join(' ')} `
    const all = await round(
      this.env.clock,
      settings.commandTimeout,
      group.nodes,
      (node) => node.run(force, [this.toKey(name)], [String(settings.retention), seen]),
      () => false,
    )
    if (count(all, () => true) < group.majority) throw this.#reportError(all)
    return holders.length
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const pause of this.#pauses) pause.set()
    for (const cancel of this.#later) cancel()
    this.#later.clear()
    this.#subscribers.close()
    this.#held.clear()
    const leaving = [...this.#leaving]
    await round(
      this.env.clock,
      this.settings.commandTimeout,
      leaving,
      (one) => one,
      () => false,
    )
    this.group.close()
  }

  /** Runs `work` again later, if that is before `until`; false: it will not run. */
  again(ttl: number, until: number, work: () => void): boolean {
    const { clock } = this.env
    const at = clock.now() + Math.max(50, ttl / 6)
    if (at >= until || this.#closed) return false
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
    this.#held.delete(attempt)
  }

  /** How long one round for a lease of `ttl` may take, in ms. */
  timeout(ttl: number): number {
    return Math.min(this.settings.commandTimeout, Math.max(20, ttl / 5))
  }

  async #round(claim: Claim, n: number, waits: boolean, replies: RoundReplies): Promise<Hold | WaitStatus> {
    const { group, env, settings } = this
    const key = this.toKey(claim.name)
    const keys = [key, group.markerKey]
    const ballot = this.#ballot(replies)
    const { retention, retryDelay } = settings
    const alive = 3 * retryDelay + this.timeout(claim.ttl) + 1_000
    const argsWith = (channel: string | undefined) =>
      voteArgs({ claim, round: n, ballot, rejoin: false, by: env.client, channel, alive, retention })
    // Made once each: the process has the same channel on every server.
    let reachable: readonly string[] | undefined
    let unreachable: readonly string[] | undefined
    const argsFor = (node: Node) => {
      const channel = waits ? this.#subscribers.at(node) : undefined
      if (channel !== undefined) {
        reachable ??= argsWith(channel)
        return reachable
      }
      unreachable ??= argsWith(waits ? unreachableChannel : undefined)
      return unreachable
    }
    const voting = { attempt: claim.attempt, round: n }
    const sent = env.clock.now()
    const reply = await round(
      env.clock,
      this.timeout(claim.ttl),
      group.nodes,
      (node) =>
        node.askFor(vote, keys, [node.identity?.boot ?? '', ...argsFor(node)], voting, (reply) =>
          this.#read(node, reply, replies),
        ),
      (soFar) => {
        replies.reply = soFar
        return this.#decided(soFar)
      },
    )
    replies.reply = reply
    const token = winner(reply, group.majority)
    const validUntil = deadline(sent, claim.ttl)
    if (token !== undefined && env.clock.now() < validUntil) {
      const held = new Hold(this, claim, key, n, token, validUntil)
      this.#held.set(claim.attempt, held)
      return held
    }
    if (!this.#decided(reply))
      for (const [place, node] of group.nodes.entries()) if (reply[place] === undefined) node.silent = true
    return this.#blocked(reply)
  }

  #read(node: Node, reply: readonly Reply[], replies: RoundReplies): Vote {
    if (String(reply[0]) === 'c')
      throw new Error('server clock is beyond 2112; ballots cannot be represented')
    const letter = String(node.accept(reply)[0])
    const ballot = Number(letter === 'y' ? reply[3] : reply[1])
    if (!Number.isSafeInteger(ballot)) throw new GarbledReply('EVALSHA (vote)', reply)
    // Counts even if it arrives after the end of its round.
    if (letter !== 'y') replies.ballot = Math.max(replies.ballot, ballot)
    return {
      letter,
      ballot,
      holder: letter === 'n' ? parseHolder(reply, 4) : undefined,
      position: letter === 'n' || letter === 'r' ? Number(reply[3]) : 0,
    }
  }

  /** Has an attempt won, or can none win any more? */
  #decided(reply: readonly NodeReply<Vote>[]): boolean {
    if (winner(reply, this.group.majority) !== undefined) return true
    const { nodes, majority } = this.group
    const isOpen = (place: number) => reply[place] === undefined
    const open = nodes.filter((node, place) => isOpen(place) && !this.#lacksVotes(node)).length
    if (count(reply, ({ letter }) => letter === 'y') + open >= majority) return false
    // Whether the lock is taken or too few servers answer is known only once a majority has answered, or no longer can.
    const answered = count(reply, () => true)
    return answered >= majority || answered + open < majority
  }

  /**
   * A silent server is asked, and its vote counts, but no round waits for it while a majority is not silent. Otherwise two contenders
   * that have split the votes of the others would not know the outcome for a whole time-out, both would start again at once, and so on
   * for ever.
   */
  #lacksVotes({ silent }: Node): boolean {
    const { nodes, majority } = this.group
    return silent && nodes.filter((node) => node.trusted && !node.silent).length >= majority
  }

  /**
   * Releases the votes on all servers that were asked: those that have not answered may have voted, too, or will. No caller awaits
   * this; a vote whose release does not arrive expires by its ttl.
   */
  #releaseVotes({ attempt, name }: Claim, n: number, leave: boolean): void {
    const args = [attempt, String(n), '0', String(this.settings.retention), leave ? '1' : '0']
    for (const node of this.group.nodes) {
      if (!node.mayHaveVoted(attempt, leave ? undefined : n)) continue
      const leaving: Promise<unknown> = node
        .run(release, [this.toKey(name)], args)
        .catch(() => undefined)
        .then(() => {
          this.#leaving.delete(leaving)
          if (leave) node.forget(attempt)
        })
      this.#leaving.add(leaving)
    }
  }

  /**
   * Greater than every ballot reported, and not behind the clocks that matter: those of a majority of all servers, taken from the
   * servers that answer. That can depend on a single server whose clock is far ahead; its time is then used, but not kept for the next
   * ballot.
   */
  #ballot({ ballot }: RoundReplies): number {
    const { nodes, majority } = this.group
    const all: number[] = []
    const answering: number[] = []
    for (const { trusted, wall, silent } of nodes) {
      if (!trusted || wall > latestClock) continue
      all.push(Math.floor(wall))
      if (!silent) answering.push(Math.floor(wall))
    }
    const median = all.sort(ascending)[Math.floor((all.length - 1) / 2)] ?? 0
    const needed = answering.sort(ascending)[majority - 1] ?? 0
    this.#time = Math.max(
      this.#time + 1,
      needed < median + retentionPassed ? Math.max(median, needed) : median,
    )
    return Math.max(this.#time, needed, ballot + 1)
  }

  /** Would a majority have voted for a greater ballot? */
  #wouldVote(reply: readonly NodeReply<Vote>[]): boolean {
    return count(reply, ({ letter }) => letter === 'y' || letter === 'h') >= this.group.majority
  }

  #blocked(reply: readonly NodeReply<Vote>[]): WaitStatus {
    const missing = this.#decided(reply) ? 'its answer could not change that' : 'no answer in time'
    const refusals = reply.flatMap((one) =>
      one !== undefined && !(one instanceof Error) && (one.holder || one.position > 0) ? [one] : [],
    )
    const holder = mostNamed(refusals)
    const position = Math.max(0, ...refusals.map(({ position }) => position))
    return {
      ...(holder === undefined ? {} : { holder }),
      ...(position === 0 ? {} : { position }),
      ...(count(reply, () => true) < this.group.majority ? { error: this.#reportError(reply, missing) } : {}),
    }
  }

  #delay(outcome: Hold | WaitStatus): number {
    const jitter = 0.5 + this.env.random()
    // No attempt holds the lock: contenders have split the votes, and should not meet again at once.
    if (outcome instanceof Hold || (outcome.holder === undefined && outcome.error === undefined))
      return 10 * jitter
    const left = outcome.holder?.expiresIn ?? Number.POSITIVE_INFINITY
    return Math.max(5, Math.min(left + 5, this.settings.retryDelay)) * jitter
  }

  #reportError(reply: readonly NodeReply<unknown>[], missing = 'no answer in time'): BackendError {
    const { nodes, majority } = this.group
    const replies = nodes.map((node, place) => {
      const one = reply[place]
      const silent = node.trusted ? missing : node.untrustedReason
      if (one !== undefined && !(one instanceof Error)) return `${node.label}: answered`
      return `${node.label}: ${node.connection.outage?.message ?? one?.message ?? silent}`
    })
    const silent = nodes.filter(({ trusted, untrustedReason }, place) => {
      const one = reply[place]
      return (
        (one instanceof Error && !(one instanceof GarbledReply || one instanceof Refusal)) ||
        (one === undefined && (trusted || [notSent, notIntroduced, broke].includes(untrustedReason)))
      )
    })
    const barred = nodes.some(({ quarantined }) => quarantined)
    const gone = nodes.filter(
      ({ trusted, quarantined }, place) => !quarantined && (!trusted || reply[place] instanceof Error),
    )
    return new BackendError(
      'redlock',
      `fewer than ${majority} of ${nodes.length} servers can vote (${replies.join('; ')})`,
      {
        cause:
          nodes.find(({ connection }) => connection.outage !== undefined)?.connection.outage ??
          withoutLogin(reply.find((one) => one instanceof Error)),
        unanswered: silent.length > nodes.length - majority,
        quarantined: barred && gone.length <= nodes.length - majority,
      },
    )
  }
}
