// The functions on a real server against the reference table: random commands, the same answers, the same grants in the same
// order, the same standing after every step. The server's clock is the one thing that is not real: it is read from a
// setting of the session, so that both sides live in the same microsecond and leases run out without waiting.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { Client } from 'pg'
import type { Standing } from '../../../src/core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../../src/core/mode.js'
import * as table from '../../../src/drivers/memory/table.js'
import { standingOf } from '../../../src/drivers/postgres/inspect.js'
import { type Calls, callsOf, migration } from '../../../src/drivers/postgres/sql.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'

const channel = 'differential'
const by = 'host:1'
const modes: readonly Mode[] = [exclusive, exclusive, shared, permits(1, 2), permits(2, 3), permits(3, 3)]
const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const
const calls: Calls = callsOf('public')

interface Command {
  readonly verb: 'acquire' | 'try' | 'renew' | 'release' | 'cancel' | 'downgrade' | 'force' | 'time'
  /** Which attempt: the newest is 0. */
  readonly who: number
  readonly mode: number
  readonly ms: number
}

const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.record({
    verb: fc.constantFrom<Command['verb'][]>(
      ...(['acquire', 'acquire', 'acquire', 'acquire', 'try', 'renew', 'release', 'release'] as const),
      ...(['cancel', 'downgrade', 'force', 'time', 'time'] as const),
    ),
    who: fc.integer({ min: -2, max: 5 }),
    mode: fc.nat(modes.length - 1),
    ms: fc.integer({ min: 1, max: 400 }),
  }),
  { minLength: 1, maxLength: 40 },
)

/** The real thing on one side, the table on the other. */
class Twins {
  readonly #client: Client
  readonly #pushes: string[]
  readonly #name: string
  #row: table.Row
  #now = 1_700_000_000_000
  #newest = 0
  /** Newest last. The server remembers eight endings, the table more: older ones are not asked about. */
  readonly #attempts: string[] = []
  readonly #ended: string[] = []
  /** A claim does not change when it is repeated. */
  readonly #claims = new Map<string, { readonly mode: Mode; readonly ttl: number; readonly note: string }>()

  constructor(client: Client, pushes: string[], name: string) {
    this.#client = client
    this.#pushes = pushes
    this.#name = name
    this.#row = table.emptyRow(name)
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
    const { mode, ttl, note } = claim
    const now = this.#now
    const name = this.#name
    if (verb === 'acquire' || verb === 'try') {
      const wait = verb === 'acquire'
      const twin = table.acquire(this.#row, { attempt, mode, ttl, wait, by, note }, now, now)
      const [take, of] = mode.kind === 'permits' ? [mode.take, mode.of] : [1, 1]
      const micros = ttl * 1000
      const answer = await this.#run(calls.acquire, [
        ...[name, attempt, letters[mode.kind], micros, take, of, wait ? 1 : 0, 7],
        ...[1e15, micros, 0, channel, by, note, 0],
      ])
      assert.deepEqual(acquired(answer), expected(twin.answer))
      return this.#same(twin, attempt)
    }
    if (verb === 'force') {
      const twin = table.force(this.#row, now, now)
      assert.equal(await this.#run(calls.force, [name, 0]), twin.answer.length)
      return this.#same(twin)
    }
    const held = this.#row.held.find((hold) => hold.attempt === attempt)
    const last = (held?.token ?? 0) + (ms % 5)
    if (verb === 'renew') {
      const twin = table.renew(this.#row, attempt, ttl, now, now)
      const items = JSON.stringify([[name, attempt, ttl * 1000]])
      assert.deepEqual(await this.#run(calls.renew, [items, 0]), [twin.answer === undefined ? 0 : 1])
      return this.#same(twin, attempt)
    }
    if (verb === 'downgrade') {
      const twin = table.downgrade(this.#row, attempt, last, now, now)
      const answer = await this.#run(calls.downgrade, [name, attempt, last, 0])
      assert.equal(answer, twin.answer?.token ?? 0)
      return this.#same(twin, attempt)
    }
    this.#end(attempt)
    if (verb === 'cancel') {
      const twin = table.cancel(this.#row, attempt, now, now)
      assert.equal(await this.#run(calls.cancel, [name, attempt, 1, 0]), twin.answer ? 1 : 0)
      return this.#same(twin, attempt)
    }
    const twin = table.release(this.#row, attempt, last, now, now)
    const codes = { released: 1, 'already-released': 2, lost: 0 } as const
    assert.equal(await this.#run(calls.release, [name, attempt, last, 0]), codes[twin.answer])
    return this.#same(twin, attempt)
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

  async #run({ text }: { readonly text: string }, values: readonly unknown[]): Promise<unknown> {
    await this.#client.query(`select set_config('twins.now', $1, false)`, [String(this.#now)])
    const { rows } = await this.#client.query(text, [...values])
    return JSON.parse(rows[0].answer)
  }

  async #same(twin: table.Step<unknown>, about?: string): Promise<void> {
    this.#row = twin.row
    const real = standingOf(this.#name, await this.#run(calls.inspect, [this.#name]))
    assert.deepEqual(plain(real), plain(table.standingOf(this.#row, this.#now)))
    const granted = twin.granted.map((hold) => `${hold.attempt} ${hold.token}`)
    const pushed = this.#pushes
      .splice(0)
      .filter((push) => push.startsWith('g ') && push.split(' ')[1] !== about)
    assert.deepEqual(
      pushed.map((push) => push.split(' ').slice(1, 3).join(' ')),
      granted,
    )
  }
}

/** The table remembers more endings and an order of holds that the server does not promise. */
function plain(standing: Standing): unknown {
  const holders = [...standing.holders].sort((a, b) => a.token - b.token)
  return { ...standing, holders }
}

function acquired(answer: unknown): unknown {
  const [is, first] = answer as readonly unknown[]
  if (is === 'granted') return `granted ${first}`
  if (is === 'limit') return `limit ${first}`
  if (is === 'over') return 'over'
  return first === 0 ? 'busy' : `waiting ${first}`
}

function expected(answer: table.Acquired): string {
  if (answer.is === 'granted') return `granted ${answer.hold.token}`
  if (answer.is === 'waiting') return `waiting ${answer.position}`
  return answer.is === 'limit' ? `limit ${answer.limit}` : answer.is
}

/** With its clock in a setting; without the short cuts, everything goes through the general part. */
function adapted(shortCuts: boolean): string {
  const text = migration().replaceAll(
    'clock_timestamp()',
    `to_timestamp(current_setting('twins.now')::numeric / 1000)`,
  )
  assert.ok(!text.includes('clock_timestamp'))
  if (shortCuts) return text
  const general = text.replace("if _kind = 'x' then\n    update", 'if false then\n    update')
  const cut = general.replace('and not k.line and k.expires > now and', 'and false and not k.line and')
  assert.ok(general !== text && cut !== general)
  return cut
}

for (const shortCuts of [true, false]) {
  test(`does what the reference table does, ${shortCuts ? 'short cuts included' : 'without the short cuts'}`, async () => {
    await using server = await startPostgres()
    await server.sql(adapted(shortCuts))
    const client = new Client(server.url)
    const pushes: string[] = []
    client.on('notification', ({ payload }) => pushes.push(payload ?? ''))
    await client.connect()
    await client.query(`listen ${channel}`)
    let runs = 0
    try {
      const property = fc.asyncProperty(commands, async (list) => {
        pushes.length = 0
        const twins = new Twins(client, pushes, `twins ${runs++}`)
        for (const command of list) await twins.step(command)
      })
      await fc.assert(property, { numRuns: 150 })
    } finally {
      await client.end()
    }
  })
}

after(leakCheck)
