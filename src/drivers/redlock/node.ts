/**
 * One of the servers, as far as this process can see it.
 *
 * Its vote counts only while it is *trusted*: its identity was read over the present connection, and its data are known to be
 * those of this life of the server (`group.ts`). Any break of the connection ends that: it may have restarted and forgotten.
 */
import { createHash } from 'node:crypto'
import type { Clock } from '../../core/clock.js'
import type { Connection, Reply } from '../redis/client.js'
import type { Script } from './state.js'

/** Of one life of one server. */
export interface Identity {
  readonly boot: string
  /** Its wall clock when it started, in µs. */
  readonly since: number
}

/** A frozen server must not pile up requests: beyond so many unanswered it is asked for nothing new. */
const mostUnanswered = 256

export const notAsked = 'not asked yet'

const shas = new Map<Script, string>()

export class Node {
  readonly label: string
  readonly connection: Connection
  identity: Identity | undefined
  trusted = false
  /** Why it is not trusted, for messages. */
  distrust: string = notAsked
  /** Clock reading before which it need not be looked at again. */
  lookAgainAt: number = Number.NEGATIVE_INFINITY
  /** It left a round unanswered until the end, and has not been heard of since. */
  silent = false
  /** Grows with every break of the connection. */
  epoch = 0
  #unanswered = 0
  /** Attempts it was asked to vote for and has not been told the end of, each with its newest round. */
  readonly #asked = new Map<string, number>()
  /** The server's wall clock in µs at a moment of ours: what the newest answer said. */
  #wall = 0
  #wallAt = 0
  readonly #clock: Clock
  readonly #unwatch: () => void

  constructor(connection: Connection, place: number, clock: Clock) {
    this.connection = connection
    this.label = `server ${place + 1}`
    this.#clock = clock
    this.#unwatch = connection.watch(
      () => this.suspect('the connection broke'),
      () => undefined,
    )
  }

  suspect(why: string): void {
    this.epoch++
    this.trusted = false
    this.distrust = why
    this.lookAgainAt = Number.NEGATIVE_INFINITY
  }

  /** Its wall clock now, in µs, as well as this process can tell. */
  get wall(): number {
    return this.#wall + (this.#clock.now() - this.#wallAt) * 1000
  }

  tellsTime(wall: number): void {
    this.silent = false
    this.#wall = wall
    this.#wallAt = this.#clock.now()
  }

  /**
   * Asks for something new. Rejects when the connection broke meanwhile: the answer may be that of another life.
   * @param voting given when it is for a vote
   */
  ask(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    voting?: { readonly attempt: string; readonly round: number },
  ): Promise<readonly Reply[]> {
    if (!this.trusted) return Promise.reject(new Error(this.distrust))
    if (this.#unanswered >= mostUnanswered)
      return Promise.reject(new Error(`${this.#unanswered} requests are unanswered`))
    if (voting !== undefined) this.#asked.set(voting.attempt, voting.round)
    const { epoch } = this
    this.#unanswered++
    return this.run(script, keys, args).then(
      (parts) => {
        this.#unanswered--
        if (epoch !== this.epoch) throw new Error(this.distrust)
        return parts
      },
      (error) => {
        this.#unanswered--
        throw error
      },
    )
  }

  /** As `ask`, whatever is known of the server: for giving back and for looking. */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<readonly Reply[]> {
    return this.connection.run('EVALSHA', shaOf(script), keys, args).then(partsOf, async (error) => {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return partsOf(await this.connection.run('EVAL', script.text, keys, args))
    })
  }

  /**
   * May it have voted for this attempt, in this round or in any? If not there is nothing to give back, and a frozen server
   * gets no more releases than it got requests.
   */
  mayHaveVoted(attempt: string, round?: number): boolean {
    const asked = this.#asked.get(attempt)
    return asked !== undefined && (round === undefined || asked === round)
  }

  /** It has been told the end, or need not be told any more. */
  forget(attempt: string): void {
    this.#asked.delete(attempt)
  }

  close(): void {
    this.#unwatch()
  }
}

/** The short cuts answer in one text. */
function partsOf(reply: Reply): readonly Reply[] {
  if (typeof reply === 'string') return reply.split(' ')
  return Array.isArray(reply) ? reply : [reply]
}

function shaOf(script: Script): string {
  const known = shas.get(script)
  if (known !== undefined) return known
  const sha = createHash('sha1').update(script.text).digest('hex')
  shas.set(script, sha)
  return sha
}

/** From INFO, with the server's time. @throws Error when it does not say */
export function identityIn(info: ReadonlyMap<string, string>): Identity & { readonly now: number } {
  const boot = info.get('run_id')
  const now = Number(info.get('server_time_usec') ?? 0)
  if (boot === undefined || now === 0) throw new Error('INFO does not say which server it is')
  // Whole seconds: up to one of them may have passed before the first was counted.
  return { boot, now, since: now - Number(info.get('uptime_in_seconds') ?? 0) * 1_000_000 }
}
