// The simulated Redis against a real one: the driver's own scripts, the same commands in the same microseconds, the same
// answers, the same messages to the same channels, and the same data afterwards.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import {
  type Machine,
  type Redis as Simulated,
  startMachine,
} from '../../lab/simulation/stores/redis/machine.js'
import { cellKeys, lockKeys } from '../../src/drivers/redis/keys.js'
import { acquire } from '../../src/drivers/redis/scripts/acquire.js'
import { readCell, watchCell, writeCell } from '../../src/drivers/redis/scripts/cells.js'
import { inspect } from '../../src/drivers/redis/scripts/inspect.js'
import { cancel, downgrade, force, further, release, renew } from '../../src/drivers/redis/scripts/verbs.js'
import { sequences } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'

interface Step {
  readonly what:
    | 'acquire'
    | 'release'
    | 'renew'
    | 'cancel'
    | 'downgrade'
    | 'force'
    | 'further'
    | 'inspect'
    | 'cell'
    | 'watch'
    | 'mark'
    | 'time'
  readonly who: number
  readonly mode: number
  readonly n: number
}

const modes = ['x 1 1', 'x 1 1', 's 1 1', 'p 1 3', 'p 2 3'] as const
const steps = fc.array(
  fc.record<Step>({
    what: fc.constantFrom<Step['what'][]>(
      ...(['acquire', 'acquire', 'acquire', 'acquire', 'release', 'release', 'renew', 'cancel'] as const),
      ...(['downgrade', 'force', 'further', 'inspect', 'cell', 'watch', 'mark', 'time', 'time'] as const),
    ),
    who: fc.nat(5),
    mode: fc.nat(modes.length - 1),
    n: fc.integer({ min: 1, max: 900 }),
  }),
  { minLength: 1, maxLength: 40 },
)

let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

/** The real scripts, but with their clock in two keys. */
const timed = (text: string) =>
  text.replaceAll(
    /(redis\.)?call\('TIME'\)/g,
    "{ redis.call('GET', 'clock:s'), redis.call('GET', 'clock:us') }",
  )

/**
 * A real server drops a key by its own clock, whatever TIME says to the script: so no key may run out here. By when somebody
 * does not want to hear of a change any more is a number in the data, and that stays as short as it was.
 */
const lasting = 600_000
const watchCellLasting = watchCell.text.replace(
  "call('PEXPIRE', KEYS[2], ARGV[3])",
  `call('PEXPIRE', KEYS[2], ${lasting})`,
)
assert.notEqual(watchCellLasting, watchCell.text)

test('every script does in the simulation what it does on a real server', async () => {
  await using server = await startRedis()
  const real = new Redis(server.port, { protocol: 3 })
  const heard: string[][] = []
  real.on('message', (channel, text) => heard.push([channel, text]))
  await real.subscribe('hf:c:1', 'hf:c:2')
  let lock = 0
  try {
    const property = fc.asyncProperty(steps, fc.boolean(), async (sequence, marked) => {
      const twin = machine.server()
      twin.listeners('hf:c:1', 1)
      twin.listeners('hf:c:2', 1)
      const pair = new Pair(real, twin, heard, `lock ${++lock}`, marked)
      await real.flushall()
      for (const step of sequence) await pair.step(step)
      await pair.compareData()
      twin.end()
    })
    const { each } = sequences['simulation/redis-twin']
    await fc.assert(property, { numRuns: each, seed: 20 })
    assert.ok(lock >= each)
  } finally {
    real.disconnect()
  }
})

class Pair {
  readonly #real: Redis
  readonly #twin: Simulated
  readonly #heard: string[][]
  readonly #name: string
  readonly #marked: boolean
  #now = 1_700_000_000_000_000

  constructor(real: Redis, twin: Simulated, heard: string[][], name: string, marked: boolean) {
    this.#real = real
    this.#twin = twin
    this.#heard = heard
    this.#name = name
    this.#marked = marked
  }

  async step({ what, who, mode, n }: Step): Promise<void> {
    const attempt = `attempt${who}`
    const [kind = 'x', take, of] = modes[mode]?.split(' ') ?? []
    // Now and then from where it last was in the line.
    const from = n % 7 === 0 ? `${this.#now - n}` : '0'
    if (what === 'time') this.#now += n * 1000
    else if (what === 'acquire') {
      const rest = `${take} ${of} ${n % 3 === 0 ? 0 : 1} 12000000 ${from}`
      await this.#lock(acquire.text, who, attempt, kind, `${n * 3000}`, rest, `note of ${who}`)
    } else if (what === 'release') await this.#lock(release.text, who, attempt, `${this.#now}`)
    else if (what === 'renew') await this.#lock(renew.text, who, attempt, `${n * 2000}`)
    else if (what === 'cancel') await this.#lock(cancel.text, who, attempt, n % 2 === 0 ? '0' : `${n * 1000}`)
    else if (what === 'downgrade') await this.#lock(downgrade.text, who, attempt, `${this.#now}`)
    else if (what === 'force') await this.#lock(force.text, who, '-')
    else if (what === 'further') await this.#lock(further.text, who, from)
    else if (what === 'mark') await this.#mark(n)
    else if (what === 'inspect') await this.#run(inspect.text, lockKeys('hf:', this.#name), [])
    else if (what === 'watch') {
      await this.#run(watchCellLasting, cellKeys('hf:', this.#name), ['0', 'hf:c:2', `${n * 10}`])
    } else {
      const value = n % 3 === 0 ? [] : [`value ${n}`]
      await this.#run(writeCell.text, cellKeys('hf:', this.#name), [
        '0',
        attempt,
        '',
        `${lasting + n}`,
        ...value,
      ])
      await this.#run(readCell.text, cellKeys('hf:', this.#name).slice(0, 1), [])
    }
  }

  /** Another process has met the server: it is barred for a while, its data are other ones, or nothing is wrong. */
  async #mark(n: number): Promise<void> {
    const till = n % 3 === 0 ? this.#now + n * 1000 : 0
    const marker = `${till} abc ${n % 5 === 0 ? 'other' : 'lineage'} 30000000 0`
    await this.#run("return redis.call('SET', KEYS[1], ARGV[1])", ['hf:boot'], [marker])
  }

  async #lock(text: string, who: number, ...item: string[]): Promise<void> {
    const boot = this.#marked ? ['hf:boot'] : []
    const header = [
      this.#marked ? '0 abc lineage ' : '',
      `hf:c:${(who % 2) + 1} host:${who}`,
      '65536',
      '600000',
      '0',
    ]
    await this.#run(text, [...boot, ...lockKeys('hf:', this.#name)], [...header, ...item])
  }

  async #run(text: string, keys: readonly string[], args: readonly string[]): Promise<void> {
    this.#now += 1
    const seconds = Math.floor(this.#now / 1e6)
    await this.#real.mset('clock:s', seconds, 'clock:us', this.#now - seconds * 1e6)
    this.#heard.length = 0
    const reply = await this.#real.eval(timed(text), keys.length, ...keys, ...args)
    const twin = this.#twin.run('EVAL', text, keys, args, this.#now)
    assert.deepEqual(twin.reply, JSON.parse(JSON.stringify(reply ?? null)))
    assert.deepEqual(twin.published, this.#heard)
  }

  /** Times to live are left out: the real server counts them by its own clock. */
  async compareData(): Promise<void> {
    const [hash = '', line = '', deadlines = ''] = lockKeys('hf:', this.#name)
    for (const key of [line, deadlines]) {
      const list = "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')"
      const twin = this.#twin.run('EVAL', list, [key], [], this.#now)
      assert.deepEqual(twin.reply, await this.#real.zrange(key, '0', '-1', 'WITHSCORES'))
    }
    const names = await this.#real.hkeys(hash)
    const read = "return redis.call('HMGET', KEYS[1], unpack(ARGV))"
    if (names.length === 0) return
    const twin = this.#twin.run('EVAL', read, [hash], names, this.#now)
    assert.deepEqual(twin.reply, await this.#real.hmget(hash, ...names))
  }
}

after(leakCheck)
