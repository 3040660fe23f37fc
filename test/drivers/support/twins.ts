// Random commands for a real store and for the reference table: the same answers, the same grants in the same order, the
// same standing after every step. The store's clock is the one thing that is not real: the test that makes a `Twin` sets it
// under the test, so that both sides live in the same microsecond and leases run out without waiting.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { LockStatus } from '../../../src/core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../../src/core/mode.js'
import * as table from '../../../src/drivers/memory/table.js'

export const clientName = 'host:1'
export const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const
const modes: readonly Mode[] = [exclusive, exclusive, shared, permits(1, 2), permits(2, 3), permits(3, 3)]
const codes = { lost: 0, released: 1, 'already-released': 2 } as const

export interface Ask {
  readonly attempt: string
  readonly mode: Mode
  readonly ttl: number
  readonly note: string
  readonly wait: boolean
}

/** One lock in the real store, in the raw answers of what the driver calls there. `now` is milliseconds since 1970. */
export interface Twin {
  readonly name: string
  /** `granted 5`, `waiting 2`, `limit 3`, `busy` or `over`. */
  acquire(now: number, ask: Ask): Promise<string>
  /** 1: it is held and lasts for that long at least, with an order that is new exactly so long; 0: it is not held. */
  renew(now: number, attempt: string, ttl: number, order?: number): Promise<unknown>
  /** 0: lost; 1: released; 2: released before. */
  release(now: number, attempt: string, last: number): Promise<unknown>
  /** 1: it was here. */
  cancel(now: number, attempt: string): Promise<unknown>
  /** The token of the hold; 0: none. */
  downgrade(now: number, attempt: string, last: number): Promise<unknown>
  /** How many it ended. */
  force(now: number): Promise<unknown>
  inspect(now: number): Promise<LockStatus>
}

interface Command {
  readonly verb: 'acquire' | 'try' | 'renew' | 'release' | 'cancel' | 'downgrade' | 'force' | 'time'
  /** Which attempt: the newest is 0. */
  readonly who: number
  readonly mode: number
  readonly ms: number
}

const command: fc.Arbitrary<Command> = fc.record({
  verb: fc.constantFrom<Command['verb'][]>(
    ...(['acquire', 'acquire', 'acquire', 'acquire', 'try', 'renew', 'release', 'release'] as const),
    ...(['cancel', 'downgrade', 'force', 'time', 'time'] as const),
  ),
  who: fc.integer({ min: -2, max: 5 }),
  mode: fc.nat(modes.length - 1),
  ms: fc.integer({ min: 1, max: 400 }),
})

/**
 * @param pushes what the store has told the process that waits: `g ATTEMPT …` for a grant
 * @param make the real side of one more lock, of which the store has not heard yet
 */
export async function sameAsTable(
  { sequences, longest }: { readonly sequences: number; readonly longest: number },
  pushes: string[],
  make: (lock: number) => Twin,
): Promise<void> {
  let lock = 0
  const commands = fc.array(command, { minLength: 1, maxLength: longest })
  const property = fc.asyncProperty(commands, async (sequence) => {
    const twins = new Twins(make(++lock), pushes)
    pushes.length = 0
    for (const command of sequence) await twins.step(command)
  })
  await fc.assert(property, { numRuns: sequences })
  assert.ok(lock >= sequences)
}

/** The real thing on one side, the table on the other. */
class Twins {
  readonly #real: Twin
  readonly #pushes: string[]
  #row: table.Row
  #now = 1_700_000_000_000
  #newest = 0
  #orders = 0
  /** Newest last. A store remembers few endings, the table more: older ones are not asked about. */
  readonly #attempts: string[] = []
  readonly #ended: string[] = []
  /** A claim does not change when it is repeated. */
  readonly #claims = new Map<string, { readonly mode: Mode; readonly ttl: number; readonly note: string }>()

  constructor(real: Twin, pushes: string[]) {
    this.#real = real
    this.#pushes = pushes
    this.#row = table.emptyRow(real.name)
  }

  async step({ verb, who, mode: index, ms }: Command): Promise<void> {
    if (verb === 'time') {
      this.#now += ms
      return
    }
    const attempt = this.#pick(who, verb)
    const claim = this.#claims.get(attempt) ?? {
      mode: modes[index] ?? exclusive,
      ttl: ms * 3,
      note: `a ${ms}`,
    }
    this.#claims.set(attempt, claim)
    const now = this.#now
    if (verb === 'acquire' || verb === 'try') {
      const ask = { ...claim, attempt, wait: verb === 'acquire' }
      const twin = table.acquire(this.#row, { ...ask, client: clientName }, now, now)
      assert.equal(await this.#real.acquire(now, ask), expected(twin.answer))
      return this.#same(twin, attempt)
    }
    if (verb === 'force') {
      const twin = table.forceRelease(this.#row, now, now)
      assert.equal(await this.#real.force(now), twin.answer.length)
      return this.#same(twin)
    }
    return this.#same(await this.#hold(verb, attempt, claim.ttl, ms), attempt)
  }

  /** What is asked of a hold that is there, or is not. */
  async #hold(
    verb: 'renew' | 'release' | 'cancel' | 'downgrade',
    attempt: string,
    ttl: number,
    ms: number,
  ): Promise<table.Step<unknown>> {
    const now = this.#now
    const held = this.#row.holds.find((hold) => hold.attempt === attempt)
    const last = (held?.token ?? 0) + (ms % 5)
    if (verb === 'renew') {
      const [lasting, order] = this.#term(held, ttl, ms)
      const twin = table.renew(this.#row, attempt, lasting, now, now, order)
      assert.equal(await this.#real.renew(now, attempt, lasting, order), twin.answer === undefined ? 0 : 1)
      return twin
    }
    if (verb === 'downgrade') {
      const twin = table.downgrade(this.#row, attempt, last, now, now)
      assert.equal(await this.#real.downgrade(now, attempt, last), twin.answer?.token ?? 0)
      return twin
    }
    this.#end(attempt)
    if (verb === 'cancel') {
      const twin = table.cancel(this.#row, attempt, now, now)
      assert.equal(await this.#real.cancel(now, attempt), twin.answer ? 1 : 0)
      return twin
    }
    const twin = table.release(this.#row, attempt, last, now, now)
    assert.equal(await this.#real.release(now, attempt, last), codes[twin.answer])
    return twin
  }

  /** As long as before, or less, at least or exactly, or a late copy of the last that may have shortened this hold. */
  #term(held: table.Hold | undefined, ttl: number, ms: number): readonly [ttl: number, order?: number] {
    if (ms % 4 === 0) return [ttl]
    if (ms % 4 === 1) return [ms]
    if (ms % 4 === 2) return [ms, ++this.#orders]
    return [ms, held?.order ?? ++this.#orders]
  }

  #pick(who: number, verb: string): string {
    const old = this.#attempts.at(-1 - who)
    if (who >= 0 && old !== undefined) return old
    if (who === -1 && this.#ended.length > 0) return this.#ended.at(-1) ?? ''
    const fresh = `attempt${++this.#newest}`
    if (verb === 'acquire' || verb === 'try') this.#attempts.push(fresh)
    return fresh
  }

  #end(attempt: string): void {
    const at = this.#attempts.indexOf(attempt)
    if (at >= 0) this.#attempts.splice(at, 1)
    if (this.#ended.at(-1) !== attempt) this.#ended.push(attempt)
  }

  async #same(twin: table.Step<unknown>, about?: string): Promise<void> {
    this.#row = twin.row
    const real = await this.#real.inspect(this.#now)
    assert.deepEqual(inOrder(real), inOrder(table.toLockStatus(this.#row, this.#now)))
    const pushed = this.#pushes
      .splice(0)
      .filter((push) => push.startsWith('g ') && push.split(' ')[1] !== about)
    assert.deepEqual(
      pushed.map((push) => push.split(' ')[1]),
      twin.granted.map((hold) => hold.attempt),
    )
  }
}

/** The table knows an order of shared and permit holds that a store does not promise. */
function inOrder(standing: LockStatus): unknown {
  const holders = [...standing.holders].sort((a, b) => a.token - b.token)
  return { ...standing, holders }
}

function expected(answer: table.AcquireResult): string {
  if (answer.is === 'granted') return `granted ${answer.hold.token}`
  if (answer.is === 'waiting') return `waiting ${answer.position}`
  return answer.is === 'limit' ? `limit ${answer.limit}` : answer.is
}
