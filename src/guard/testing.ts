/**
 * Proves a guard of your own: that it refuses every write under an older token, whatever the interleaving.
 *
 * Long because the rules and the court that judges them are read together.
 *
 * ```ts
 * import { proveGuard } from 'holdfast/guard/testing'
 *
 * declare const row: (id: string) => { write(value: string, token: number): Promise<void>; read(): Promise<string> }
 * await proveGuard((id) => {
 *   const mine = row(id)
 *   return { write: (value, { token }) => mine.write(value, token), read: () => mine.read() }
 * })
 * ```
 * Give every client a connection of its own: a guard that reads before it writes only fails when somebody writes in
 * between.
 * @module
 */
import { StaleTokenError } from '../core/errors.js'
import { describe } from '../core/name.js'
import type { Fence } from './fence.js'

/** One client of a guarded resource. */
export interface GuardedResource {
  /** Writes under a fence; rejects with StaleTokenError when a newer token was there. */
  write(value: string, fence: Fence): Promise<unknown>
  read(): Promise<string | undefined>
  close?(): Promise<unknown> | unknown
}

export interface ProveGuardOptions {
  /** How many write at the same time. @default 4 */
  readonly clients?: number
  /** How often they do. @default 50 */
  readonly rounds?: number
  /** Recognises a refusal. @default a StaleTokenError */
  readonly isStale?: (error: unknown) => boolean
}

export interface GuardReport {
  readonly writes: number
  readonly refused: number
}

/** The rules, in words: what `GuardBrokenError.rule` says. */
export type GuardRule =
  | 'the first write is applied'
  | 'a holder may write again with its token'
  | 'a newer token is applied'
  | 'an older token is refused'
  | 'a refused write changes nothing'
  | 'a new client refuses what the old one would'
  | 'tokens are compared as numbers, exactly'
  | 'resources do not share their tokens'
  | 'the newest token wins when all write at once'
  | 'a write fails only for being stale'

/** A guard broke one of the rules; the message ends with the last requests. */
export class GuardBrokenError extends Error {
  override readonly name = 'GuardBrokenError'
  /** The rule, in words. */
  readonly rule: GuardRule
  /** What was sent and its outcome, in order. */
  readonly history: readonly string[]
  constructor(rule: GuardRule, what: string, history: readonly string[], cause?: unknown) {
    const lines = history.slice(-12).map((line) => `  ${line}`)
    super(
      `the guard is broken: ${rule}; ${what}\n${lines.join('\n')}`,
      cause === undefined ? undefined : { cause },
    )
    this.rule = rule
    this.history = history
  }
}

/**
 * Resolves once the guard has kept every rule.
 * @param open makes one more client of the resource `id`, one after the other; a new `id` is a resource nobody has
 * written to
 * @throws GuardBrokenError with the rule and what led to it; whatever `open` and `read` throw
 */
export async function proveGuard(
  open: (id: string) => GuardedResource | Promise<GuardedResource>,
  { clients = 4, rounds = 50, isStale = (error) => error instanceof StaleTokenError }: ProveGuardOptions = {},
): Promise<GuardReport> {
  if (!Number.isInteger(clients) || clients < 2)
    throw new RangeError(`clients must be an integer of at least 2, got ${describe(clients)}`)
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new RangeError(`rounds must be an integer of at least 1, got ${describe(rounds)}`)
  if (typeof isStale !== 'function')
    throw new TypeError(`isStale must be a function of an error, got ${describe(isStale)}`)
  const court = new Court(open, isStale)
  try {
    await inOrder(court)
    await exactly(court)
    await apart(court)
    for (let round = 0; round < rounds; round++) await atOnce(court, clients)
    return { writes: court.writes, refused: court.refused }
  } finally {
    await court.close()
  }
}

const start = 1_700_000_000_000_000

/** One holder after the other, and then the first one wakes up. */
async function inOrder(court: Court): Promise<void> {
  const id = court.fresh()
  const [old, next] = [await court.client(id), await court.client(id)]
  await court.applied('the first write is applied', old, 'first', start)
  await court.applied('a holder may write again with its token', old, 'first again', start)
  await court.applied('a newer token is applied', next, 'second', start + 1)
  await court.denied('an older token is refused', old, 'late', start)
  await court.applied('a holder may write again with its token', next, 'second again', start + 1)
  await court.close()
  const late = await court.client(id)
  await court.denied('a new client refuses what the old one would', late, 'later still', start)
  await court.applied('a holder may write again with its token', late, 'second, from elsewhere', start + 1)
}

/** Finds guards that break when tokens are text, 32-bit integers or floats somewhere on the way. */
async function exactly(court: Court): Promise<void> {
  const rule = 'tokens are compared as numbers, exactly'
  const steps = [
    [9, 10],
    [2, 2 ** 32 + 1],
    [2 ** 31 - 1, 2 ** 31],
    [999_999_999_999_999, 1_000_000_000_000_000],
    [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER],
  ] as const
  for (const [older, newer] of steps) {
    const client = await court.client(court.fresh())
    await court.applied(rule, client, 'older', older)
    await court.applied(rule, client, 'newer', newer)
    await court.denied(rule, client, 'older again', older)
  }
}

async function apart(court: Court): Promise<void> {
  const rule = 'resources do not share their tokens'
  await court.applied(rule, await court.client(court.fresh()), 'here', start + 1000)
  await court.applied(rule, await court.client(court.fresh()), 'there', start)
}

/** Every client writes twice at the same time. The newest write may not be refused, and its value must stand in the end. */
async function atOnce(court: Court, clients: number): Promise<void> {
  const rule = 'the newest token wins when all write at once'
  const id = court.fresh()
  const all: { client: GuardedResource; token: number }[] = []
  // One by one: the first client may have to make the resource.
  for (let i = 0; i < clients; i++) all.push({ client: await court.client(id), token: start + i })
  const shuffled = all.map((one) => ({ one, at: Math.random() })).sort((a, b) => a.at - b.at)
  await Promise.all(
    shuffled.map(async ({ one: { client, token } }) => {
      for (const part of ['first', 'last']) {
        const accepted = await court.write(client, `${token} ${part}`, token)
        if (!accepted && token === start + clients - 1)
          throw court.broken(rule, `the newest token, ${token}, was refused`)
      }
    }),
  )
  await court.reads(rule, all[0]?.client, `${start + clients - 1} last`)
  await court.close()
}

type Open = (id: string) => GuardedResource | Promise<GuardedResource>

/** Sends writes, records their outcomes, and judges. */
class Court {
  writes = 0
  refused = 0
  readonly #open: Open
  readonly #isStale: (error: unknown) => boolean
  readonly #history: string[] = []
  readonly #clients = new Set<GuardedResource>()
  readonly #run = Math.random().toString(36).slice(2, 8)
  #resources = 0
  #id = ''

  constructor(open: Open, isStale: (error: unknown) => boolean) {
    this.#open = open
    this.#isStale = isStale
  }

  fresh(): string {
    this.#id = `guard-${this.#run}-${++this.#resources}`
    return this.#id
  }

  async client(id: string): Promise<GuardedResource> {
    const client = await this.#open(id)
    this.#clients.add(client)
    return client
  }

  /** True: accepted; false: refused as stale. */
  async write(client: GuardedResource, value: string, token: number): Promise<boolean> {
    this.writes++
    try {
      await client.write(value, { name: this.#id, token })
      this.#history.push(`${this.#id}: '${value}' with ${token} was accepted`)
      return true
    } catch (error) {
      if (!this.#isStale(error)) {
        this.#history.push(`${this.#id}: '${value}' with ${token} failed`)
        throw this.broken('a write fails only for being stale', `it failed with ${String(error)}`, error)
      }
      this.refused++
      this.#history.push(`${this.#id}: '${value}' with ${token} was refused`)
      return false
    }
  }

  async applied(rule: GuardRule, client: GuardedResource, value: string, token: number): Promise<void> {
    if (!(await this.write(client, value, token)))
      throw this.broken(rule, `'${value}' with ${token} was refused`)
    await this.reads(rule, client, value)
  }

  async denied(rule: GuardRule, client: GuardedResource, value: string, token: number): Promise<void> {
    const before = await client.read()
    if (await this.write(client, value, token))
      throw this.broken(rule, `'${value}' with ${token} was accepted`)
    await this.reads('a refused write changes nothing', client, before)
  }

  async reads(
    rule: GuardRule,
    client: GuardedResource | undefined,
    wanted: string | undefined,
  ): Promise<void> {
    const found = await client?.read()
    if (found !== wanted) throw this.broken(rule, `'${found}' stands there instead of '${wanted}'`)
  }

  broken(rule: GuardRule, what: string, cause?: unknown): GuardBrokenError {
    return new GuardBrokenError(rule, what, this.#history, cause)
  }

  async close(): Promise<void> {
    const clients = [...this.#clients]
    this.#clients.clear()
    await Promise.all(clients.map((client) => client.close?.()))
  }
}
