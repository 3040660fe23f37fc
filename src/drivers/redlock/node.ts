/**
 * One of the servers, as this process sees it.
 *
 * Its vote counts only while the server is *trusted*: its identity was read over the present connection, and its data are known to be
 * those of this life of the server (`voters.ts`). Any break of the connection ends the trust: the server may have restarted and
 * forgotten.
 */
import type { Clock } from '../../core/clock.js'
import type { Connection, Reply } from '../redis/client.js'
import { GarbledReply } from '../redis/reply-shapes.js'
import type { Identity } from './identity.js'
import { Refusal } from './refusal.js'
import { runScript } from './run-script.js'
import type { Script } from './state.js'

/** A request for a vote. */
export interface Voting {
  readonly attempt: string
  readonly round: number
}

const asIs = (parts: readonly Reply[]) => parts
const rethrow = (error: unknown): never => {
  throw error
}

/** A frozen server must not pile up requests: with this many unanswered it gets no new ones. */
const maxUnanswered = 256

export const notSent = 'not asked yet'
/** The server was asked for its identity, and has not answered. */
export const notIntroduced = 'has not said yet which server it is'

/** Whether the server has an answer is known only once the client is connected again. */
export const broke = 'the connection broke'

export class Node {
  readonly label: string
  readonly connection: Connection
  identity: Identity | undefined
  trusted = false
  /** The server answers, but may have forgotten votes and gives none yet. */
  quarantined = false
  /** Clock reading before which the server need not be checked again. */
  checkAgainAt: number = Number.NEGATIVE_INFINITY
  /** The server left a round unanswered until its end, and has not replied since. */
  silent = false
  /** Grows with every break of the connection. */
  epoch = 0
  #reason: Error = new Error(notSent)
  #unanswered = 0
  /** Attempts the server was asked to vote for and whose end it has not confirmed, each with its newest round. */
  readonly #asked = new Map<string, number>()
  /** The server's wall clock in µs at `#wallAt` of our clock, by its newest answer. */
  #wall = 0
  #wallAt = 0
  readonly #clock: Clock
  readonly #unwatch: () => void

  constructor(connection: Connection, place: number, clock: Clock) {
    this.connection = connection
    this.label = `server ${place + 1}`
    this.#clock = clock
    connection.watchOutages()
    this.#unwatch = connection.watch(
      () => this.markUntrusted(broke),
      () => undefined,
    )
  }

  /** What its requests are rejected with while it is not trusted. */
  get untrusted(): Error {
    return this.#reason
  }

  /** Why the server is not trusted, for messages. */
  get untrustedReason(): string {
    return this.#reason.message
  }

  set untrustedReason(why: string | Refusal) {
    this.#reason = why instanceof Refusal ? why : new Error(why)
  }

  markUntrusted(why: string): void {
    this.epoch++
    this.trusted = false
    this.quarantined = false
    this.untrustedReason = why
    this.checkAgainAt = Number.NEGATIVE_INFINITY
  }

  /** The server's wall clock now, in µs, as this process estimates it. */
  get wall(): number {
    return this.#wall + (this.#clock.now() - this.#wallAt) * 1000
  }

  reportsTime(wall: number): void {
    this.silent = false
    this.#wall = wall
    this.#wallAt = this.#clock.now()
  }

  /**
   * Sends a new request. Rejects when the connection broke meanwhile: the answer may come from another life of the server.
   * @param voting present when the request is for a vote
   */
  ask(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    voting?: Voting,
  ): Promise<readonly Reply[]> {
    return this.askFor(script, keys, args, voting, asIs)
  }

  /** The same; resolves with what `read` returns for the reply. */
  askFor<A>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    voting: Voting | undefined,
    read: (parts: readonly Reply[]) => A,
  ): Promise<A> {
    if (!this.trusted) return Promise.reject(this.#reason)
    if (this.#unanswered >= maxUnanswered)
      return Promise.reject(new Error(`${this.#unanswered} requests are unanswered`))
    if (voting !== undefined) this.#asked.set(voting.attempt, voting.round)
    const { epoch } = this
    this.#unanswered++
    const answered = (parts: readonly Reply[]) => {
      this.#unanswered--
      if (epoch !== this.epoch) throw new Error(this.untrustedReason)
      return read(parts)
    }
    const failed = (error: unknown) => {
      this.#unanswered--
      throw error
    }
    return runScript(this.connection, script, keys, args, answered, failed)
  }

  /**
   * The reply of a script that was sent the marker.
   * @throws Error if the server has another one, or the script cannot have given this reply
   */
  accept(reply: readonly Reply[]): readonly Reply[] {
    if (String(reply[0]) === 'b') {
      this.markUntrusted('its marker has changed: it may have forgotten votes')
      throw new Error(this.untrustedReason)
    }
    checkReply(reply)
    this.reportsTime(Number(reply[2]))
    return reply
  }

  /** Like `ask`, but whether or not the server is trusted: for releases and checks. */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<readonly Reply[]> {
    return runScript(this.connection, script, keys, args, asIs, rethrow)
  }

  /**
   * May the server have voted for this attempt, in this round or in any? If not, there is nothing to release, and a frozen server
   * gets no more releases than it got requests.
   */
  mayHaveVoted(attempt: string, round?: number): boolean {
    const asked = this.#asked.get(attempt)
    return asked !== undefined && (round === undefined || asked === round)
  }

  /** The server has confirmed the end of the attempt, or no longer needs to know it. */
  forget(attempt: string): void {
    this.#asked.delete(attempt)
  }

  close(): void {
    this.#unwatch()
    this.connection.unwatchOutages()
  }
}

const isLetter = /^[a-z]$/
const isWord = /^\w+$/
const isTime = /^[1-9]\d*$/

/**
 * A ballot that is no number would be asked with in the next round, and servers that are well would keep it.
 * @throws GarbledReply when it does not begin with a letter, a word and the server's time
 */
export function checkReply(reply: readonly Reply[]): void {
  if (isGarbled(reply)) throw new GarbledReply('EVALSHA', reply)
}

export function isGarbled([letter, word, time]: readonly Reply[]): boolean {
  return !(isLetter.test(String(letter)) && isWord.test(String(word ?? '')) && isTime.test(String(time)))
}
