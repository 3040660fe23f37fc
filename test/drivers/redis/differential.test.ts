// The scripts on a real server against the reference table: random commands, the same answers, the same grants in the
// same order, the same standing after every step. The server's clock is the one thing that is not real: TIME is read
// from two keys, so that both sides live in the same microsecond and leases run out without waiting.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import type { Standing } from '../../../src/core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../../src/core/mode.js'
import * as table from '../../../src/drivers/memory/table.js'
import { standingOf } from '../../../src/drivers/redis/inspect.js'
import { keysOf } from '../../../src/drivers/redis/keys.js'
import { acquire } from '../../../src/drivers/redis/scripts/acquire.js'
import type { Script } from '../../../src/drivers/redis/scripts/frame.js'
import { inspect } from '../../../src/drivers/redis/scripts/inspect.js'
import { cancel, downgrade, force, release, renew } from '../../../src/drivers/redis/scripts/verbs.js'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, startRedis } from '../../support/servers/redis.js'

const channel = 'hf:c:differential'
const by = 'host:1'
const modes: readonly Mode[] = [exclusive, exclusive, shared, permits(1, 2), permits(2, 3), permits(3, 3)]
const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const

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
  { minLength: 1, maxLength: 60 },
)

/** The real thing on one side, the table on the other. */
class Twins {
  readonly #redis: Redis
  readonly #shas: ReadonlyMap<Script, string>
  readonly #pushes: string[]
  readonly #name: string
  readonly #keys: readonly string[]
  #row: table.Row
  #now = 1_700_000_000_000
  #newest = 0
  /** Newest last. The scripts remember four endings, the table more: older ones are not asked about. */
  readonly #attempts: string[] = []
  readonly #ended: string[] = []
  /** A claim does not change when it is repeated. */
  readonly #claims = new Map<string, { readonly mode: Mode; readonly ttl: number; readonly note: string }>()

  constructor(redis: Redis, shas: ReadonlyMap<Script, string>, pushes: string[], name: string) {
    this.#redis = redis
    this.#shas = shas
    this.#pushes = pushes
    this.#name = name
    this.#keys = keysOf('hf:', name)
    this.#row = table.emptyRow(name)
  }

  async step({ verb, who, mode: index, ms }: Command): Promise<void> {
    if (verb === 'time') this.#now += ms
    if (verb === 'time') return
    const attempt = this.#pick(who, verb)
    const claim = this.#claims.get(attempt) ?? {
      mode: modes[index] ?? exclusive,
      ttl: ms * 3,
      note: `a ${ms}`,
    }
    this.#claims.set(attempt, claim)
    const { mode, ttl, note } = claim
    const now = this.#now
    if (verb === 'acquire' || verb === 'try') {
      const wait = verb === 'acquire'
      const twin = table.acquire(this.#row, { attempt, mode, ttl, wait, by, note }, now, now)
      const take = mode.kind === 'permits' ? `${mode.take} ${mode.of}` : '1 1'
      const rest = `${take} ${wait ? 1 : 0} 7 ${1e15} ${ttl * 1000}`
      const reply = await this.#run(acquire, attempt, letters[mode.kind], `${ttl * 1000}`, rest, note)
      assert.deepEqual(acquired(reply), expected(twin.answer))
      return this.#same(twin, attempt)
    }
    if (verb === 'force') {
      const twin = table.force(this.#row, now, now)
      assert.equal(await this.#run(force, '-'), twin.answer.length)
      return this.#same(twin)
    }
    const held = this.#row.held.find((hold) => hold.attempt === attempt)
    const last = (held?.token ?? 0) + (ms % 5)
    if (verb === 'renew') {
      const twin = table.renew(this.#row, attempt, ttl, now, now)
      assert.equal(await this.#run(renew, attempt, `${ttl * 1000}`), twin.answer === undefined ? 0 : 1)
      return this.#same(twin, attempt)
    }
    if (verb === 'downgrade') {
      const twin = table.downgrade(this.#row, attempt, last, now, now)
      assert.equal(await this.#run(downgrade, attempt, `${last}`), `${twin.answer?.token ?? 0}`)
      return this.#same(twin, attempt)
    }
    this.#end(attempt)
    if (verb === 'cancel') {
      const twin = table.cancel(this.#row, attempt, now, now)
      assert.equal(await this.#run(cancel, attempt, '0'), twin.answer ? 1 : 0)
      return this.#same(twin, attempt)
    }
    const twin = table.release(this.#row, attempt, last, now, now)
    const codes = { released: 1, 'already-released': 2, lost: 0 } as const
    assert.equal(await this.#run(release, attempt, `${last}`), codes[twin.answer])
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

  async #run(script: Script, ...item: string[]): Promise<unknown> {
    await this.#setClock()
    const head = ['', `${channel} ${by}`, '65536', '600000', '- 0 30000000 0 0']
    return this.#redis.evalsha(this.#shas.get(script) ?? '', 3, ...this.#keys, ...head, ...item)
  }

  async #setClock(): Promise<void> {
    const seconds = Math.floor(this.#now / 1000)
    await this.#redis.mset('clock:s', seconds, 'clock:us', (this.#now - seconds * 1000) * 1000)
  }

  async #same(twin: table.Step<unknown>, about?: string): Promise<void> {
    this.#row = twin.row
    const reply = await this.#redis.evalsha(this.#shas.get(inspect) ?? '', 3, ...this.#keys)
    const real = standingOf(this.#name, reply as never)
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

/** Shared and permit holds have no order of their own in Redis. */
function plain(standing: Standing): unknown {
  const holders = [...standing.holders].sort((a, b) => a.token - b.token)
  return { ...standing, holders }
}

function acquired(reply: unknown): unknown {
  if (reply === 'o') return 'over'
  if (Array.isArray(reply)) return reply[0] === 0 ? 'busy' : `waiting ${reply[0]}`
  const [first, second] = String(reply).split(' ')
  return first === 'l' ? `limit ${second}` : `granted ${first}`
}

function expected(answer: table.Acquired): string {
  if (answer.is === 'granted') return `granted ${answer.hold.token}`
  if (answer.is === 'waiting') return `waiting ${answer.position}`
  return answer.is === 'limit' ? `limit ${answer.limit}` : answer.is
}

/** With its clock in two keys; without the short cuts, everything goes through the general part. */
function adapted(script: Script, shortCuts: boolean): string {
  const text = script.text.replace("call('TIME')", "{ call('GET', 'clock:s'), call('GET', 'clock:us') }")
  assert.notEqual(text, script.text)
  if (shortCuts) return text
  const cut = text.replace(
    /\n {2}local reply\n[\s\S]*\n {2}if reply == nil then\n/,
    '\n  local reply\n  do\n',
  )
  assert.notEqual(cut, text.includes('HMGET') && script !== inspect && script !== force ? text : '')
  return cut
}

const scripts = [acquire, release, renew, cancel, downgrade, force, inspect]
const runs: readonly (readonly [Flavour, boolean])[] = [
  ['redis7', true],
  ['redis7', false],
  ['valkey8', true],
  ['redis8', true],
]

for (const [flavour, shortCuts] of runs) {
  const how = shortCuts ? 'with its short cuts' : 'without its short cuts'
  test(`every script ${how} does on ${flavour} what the table does`, async () => {
    await using server = await startRedis({ flavour })
    // Over RESP3 one connection does both, so that no push can be later than the answer after it.
    const redis = new Redis(server.port, { protocol: 3 })
    try {
      const shas = new Map<Script, string>()
      for (const script of scripts) {
        shas.set(script, String(await redis.script('LOAD', adapted(script, shortCuts))))
      }
      const pushes: string[] = []
      redis.on('message', (_, text) => pushes.push(text))
      await redis.subscribe(channel)
      let lock = 0
      const property = fc.asyncProperty(commands, async (sequence) => {
        const twins = new Twins(redis, shas, pushes, `lock ${++lock} {tag}`)
        pushes.length = 0
        for (const command of sequence) {
          await twins.step(command)
        }
      })
      await fc.assert(property, { numRuns: 400 })
    } finally {
      redis.disconnect()
    }
  })
}

after(leakCheck)
