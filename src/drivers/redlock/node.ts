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
import { Refusal } from './refusal.js'
import { runScript } from './run-script.js'
import type { Script } from './state.js'

/** Identifies one life of one server. */
export interface Identity {
  /** Its `run_id`, and more if it was promoted. */
  readonly boot: string
  /** The server's wall clock at the start of this life, or later, in µs. */
  readonly since: number
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
    voting?: { readonly attempt: string; readonly round: number },
  ): Promise<readonly Reply[]> {
    if (!this.trusted) return Promise.reject(this.#reason)
    if (this.#unanswered >= maxUnanswered)
      return Promise.reject(new Error(`${this.#unanswered} requests are unanswered`))
    if (voting !== undefined) this.#asked.set(voting.attempt, voting.round)
    const { epoch } = this
    this.#unanswered++
    return this.run(script, keys, args).then(
      (parts) => {
        this.#unanswered--
        if (epoch !== this.epoch) throw new Error(this.untrustedReason)
        return parts
      },
      (error) => {
        this.#unanswered--
        throw error
      },
    )
  }

  /**
   * The reply of a script that was told the marker.
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
    return runScript(this.connection, script, keys, args)
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

/**
 * A ballot that is no number would be asked with in the next round, and servers that are well would keep it.
 * @throws GarbledReply when it does not begin with a letter, a word and the server's time
 */
export function checkReply(reply: readonly Reply[]): void {
  if (!/^[a-z] \w+ [1-9]\d*$/.test(reply.slice(0, 3).join(' '))) throw new GarbledReply('EVALSHA', reply)
}

/**
 * Reads the identity from INFO, with the server's time. A server that was promoted begins a new life at that moment: it has the data of
 * its former master, marker included, but may lack the newest. Its replication history is new at each promotion, and it does not say when
 * that was: `since` is now. It gives up that history after `repl-backlog-ttl` seconds without a replica; that it had a part in replication
 * still shows in its offset.
 * @throws Error when INFO lacks them
 */
export function parseIdentity(info: ReadonlyMap<string, string>): Identity & { readonly now: number } {
  const boot = info.get('run_id')
  const now = Number(info.get('server_time_usec') ?? 0)
  if (boot === undefined || now === 0) throw new Error('INFO does not say which server it is')
  const promoted = /[1-9a-f]/.test(info.get('master_replid2') ?? '')
  if (promoted) return { boot: boot + (info.get('master_replid') ?? '').slice(0, 8), now, since: now }
  if (Number(info.get('master_repl_offset') ?? 0) > 0) return { boot, now, since: now }
  // Uptime is in whole seconds: up to one second may have passed before the first was counted.
  return { boot, now, since: now - Number(info.get('uptime_in_seconds') ?? 0) * 1_000_000 }
}
