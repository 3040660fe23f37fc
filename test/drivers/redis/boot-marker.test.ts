// When a server is not trusted with new locks, and for how long: the rule in the scripts, with a clock and an INFO that the test provides.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { Redis } from 'ioredis'
import { lockKeys } from '../../../src/drivers/redis/keys.js'
import { acquire } from '../../../src/drivers/redis/scripts/acquire.js'
import { meet } from '../../../src/drivers/redis/scripts/server-marker.js'
import { release } from '../../../src/drivers/redis/scripts/verbs.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'

const server = await startRedis()
const client = new Redis(server.port)
after(async () => {
  client.disconnect()
  await server.stop()
})

const shas = { acquire: '', release: '', meet: '' }
before(async () => {
  for (const script of [acquire, release, meet]) {
    const text = script.text
      .replaceAll("call('TIME')", "{ call('GET', 'clock'), 0 }")
      .replace(/redis\.pcall\('INFO'[^)]*\)/, "call('GET', 'info')")
    shas[script.name as 'acquire'] = String(await client.script('LOAD', text))
  }
})

/** The server as it is now. */
interface Now {
  readonly boot: string
  /** Second at which this life of it began. */
  readonly began?: number
  readonly promoted?: boolean
  /** How far its replication history goes; 0 if it never had a part in any. */
  readonly offset?: number
  /** A command that was called in this life. */
  readonly called?: string
  /** It writes an append-only file. */
  readonly aof?: boolean
  readonly replicas?: number
}

let now: Now
let second = 0
let lock = 0
const start = 1_700_000_000

async function at(to: number, is: Now = now): Promise<void> {
  ;[second, now] = [to, is]
  const { boot, began = -1_000, promoted = false, offset = 0 } = is
  const { called = 'get', aof = false, replicas = 0 } = is
  const info = [
    `# Server\r\nrun_id:${boot.padEnd(40, '0')}`,
    `uptime_in_seconds:${second - began}`,
    `connected_slaves:${replicas}`,
    `master_replid:${(promoted ? 'b' : 'c').repeat(40)}`,
    `master_replid2:${promoted ? 'a' : '0'.repeat(40)}`,
    `master_repl_offset:${offset}`,
    `aof_enabled:${aof ? 1 : 0}`,
    'aof_last_write_status:ok',
    `cmdstat_${called}:calls=1`,
  ]
  await client.mset('clock', start + second, 'info', info.join('\r\n'))
}

/** A process: what it met, and what it was told to expect. */
class Process {
  readonly #maxTtl: number
  readonly #strict: boolean
  #met: readonly [boot: string, lineage: string] | undefined

  constructor({ maxTtl = 30, strict = true } = {}) {
    this.#maxTtl = maxTtl
    this.#strict = strict
  }

  async meet(always = '?'): Promise<unknown> {
    const [boot, lineage] = this.#met ?? ['-', '-']
    const args = [lineage, boot, this.#maxTtl * 1e6, 'id', this.#strict ? '1' : '0', always]
    const reply = await client.evalsha(shas.meet, 1, 'hf:boot', ...args)
    if (Array.isArray(reply)) this.#met = [String(reply[0]), String(reply[1])]
    return reply
  }

  header(): string[] {
    const [boot, lineage] = this.#met ?? ['-', '-']
    return [`0 ${boot} ${lineage} `, '- host:1', '65536', '600000', '0']
  }

  /** Asks for a lock nobody has asked for before: 'granted', 'stranger', or for how many seconds more nothing is. */
  async ask(): Promise<string | number> {
    const keys = ['hf:boot', ...lockKeys('hf:', `lock ${++lock}`)]
    const item = [`attempt ${lock}`, 'x', '1000000', '1 1 0 0 0', '']
    const reply = await client.evalsha(shas.acquire, 4, ...keys, ...this.header(), ...item)
    if (!Array.isArray(reply)) return 'granted'
    return reply[3] === 1 ? 'stranger' : Number(reply[1]) / 1e6
  }

  /** The same after it has met the server. */
  async comes(): Promise<string | number> {
    await this.meet()
    return this.ask()
  }
}

const someone = (options?: ConstructorParameters<typeof Process>[0]) => new Process(options)

/** One that has met server `a`, which is long up, and may have been granted anything. */
async function settled(options?: ConstructorParameters<typeof Process>[0]): Promise<Process> {
  const one = someone(options)
  assert.equal(await one.comes(), 'granted')
  return one
}

beforeEach(async () => {
  await client.del('hf:boot')
  await at(0, { boot: 'a' })
})

test('a server that has been up for long and from which nothing was deleted is trusted at once, by anybody', async () => {
  assert.equal(await someone().comes(), 'granted')
  assert.match(
    String(await client.get('hf:boot')),
    /^0 a000000000000000 id\.1700000000000000\.1699999000000000 30000000 0$/,
  )
  assert.equal(await someone().comes(), 'granted')
})

test('a server without a marker that has just started grants nothing until all that it may have forgotten has expired', async () => {
  await at(0, { boot: 'a', began: -5 })
  assert.equal(await someone().comes(), 26)
  assert.equal(await someone({ strict: false }).comes(), 26, 'once it is so, it is so for everybody')
  await at(26)
  assert.equal(await someone().comes(), 'granted')
})

test('an operator can say that it is a new one', async () => {
  await at(0, { boot: 'a', began: -5 })
  await client.set('hf:boot', 'new')
  assert.equal(await someone().comes(), 'granted')
})

test('an operator’s mark is ignored by a process that knows better', async () => {
  const one = await settled()
  await client.set('hf:boot', 'new')
  assert.equal(await one.ask(), 'stranger')
  assert.equal(await one.comes(), 31)
})

for (const called of ['flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat'])
  test(`no marker where ${called} was called in this life: it may have been a moment ago`, async () => {
    await at(0, { boot: 'a', called })
    assert.equal(await someone().comes(), 31)
  })

test('a newcomer that is not strict takes a server without a marker for new, but not on behalf of processes that know better', async () => {
  const old = await settled()
  await client.del('hf:boot')
  await at(10, { boot: 'a', called: 'flushall' })
  const newcomer = someone({ strict: false })
  assert.equal(await newcomer.comes(), 'granted')
  await at(12)
  assert.equal(await old.ask(), 'stranger', 'it recognises that these are other data')
  assert.equal(await old.comes(), 29, 'counted from when they were begun')
  assert.equal(await newcomer.ask(), 29)
  assert.equal(await someone().comes(), 29)
})

test('a newcomer that is strict does not believe one that is not', async () => {
  await settled()
  await client.del('hf:boot')
  await at(10, { boot: 'a', called: 'flushall' })
  assert.equal(await someone({ strict: false }).comes(), 'granted')
  await at(12)
  assert.equal(await someone().comes(), 29)
})

test('data deleted under a process that knew them are missed from the moment that is seen', async () => {
  const one = await settled()
  await client.del('hf:boot')
  await at(1000)
  assert.equal(await one.ask(), 'stranger')
  assert.equal(await one.comes(), 31)
})

test('after a restart with data nothing is granted until all that may be missing has expired, counted from the start', async () => {
  const old = await settled()
  await at(100, { boot: 'b', began: 95 })
  assert.equal(
    await old.ask(),
    'granted',
    'only who is connected to it can have met it; this one was connected to the one before',
  )
  assert.equal(await someone().comes(), 26)
  await at(110)
  assert.equal(await old.comes(), 16)
  await at(126)
  assert.equal(await old.ask(), 'granted')
})

test('a restart without its data: the first process to connect, and later ones', async () => {
  for (const order of ['old first', 'newcomer first']) {
    await client.del('hf:boot')
    await at(0, { boot: 'a' })
    const all = [await settled(), someone()]
    await client.del('hf:boot')
    await at(100, { boot: 'b', began: 95 })
    if (order === 'newcomer first') all.reverse()
    for (const one of all) assert.equal(await one.comes(), 26, order)
    await at(126)
    for (const one of all) assert.equal(await one.ask(), 'granted', order)
  }
})

test('FLUSHALL after a restart counts from now, also for who has not been there since the restart', async () => {
  const old = await settled()
  await at(100, { boot: 'b', began: 50 })
  await someone().comes()
  await client.del('hf:boot')
  await at(200, { boot: 'b', began: 50, called: 'flushall' })
  assert.equal(await old.comes(), 31)
})

test('a restart found long afterwards is not barred', async () => {
  await settled()
  await at(1000, { boot: 'b', began: 100 })
  assert.equal(await someone().comes(), 'granted')
})

test('a quarantine after a promotion counts from the moment it is noticed, because nobody knows when it happened', async () => {
  const old = await settled()
  await at(1000, { boot: 'replica', promoted: true })
  assert.equal(await someone().comes(), 31)
  await at(1031)
  assert.equal(await old.comes(), 'granted', 'once for all')
})

test('a replicated server that was not known from before may have been promoted, and not say so any more', async () => {
  const old = await settled()
  await at(1000, { boot: 'replica', offset: 1 })
  assert.equal(await someone().comes(), 31)
  await at(1031)
  assert.equal(await old.comes(), 'granted', 'once for all')
})

test('the same, if it lacks the marker: who knew the data misses them, a newcomer takes the prefix for new', async () => {
  const old = await settled()
  await client.del('hf:boot')
  await at(1000, { boot: 'replica', offset: 1 })
  assert.equal(await someone().comes(), 'granted')
  await client.del('hf:boot')
  assert.equal(await old.comes(), 31)
})

test('a new prefix on a replicated server is used at once, and so is one that is known from before', async () => {
  await at(0, { boot: 'a', offset: 1, replicas: 1 })
  const one = await settled()
  await at(100)
  assert.equal(await someone().comes(), 'granted')
  assert.equal(await one.comes(), 'granted')
})

test('a process that knew other data does not bar a replicated server that others know from before', async () => {
  const old = await settled()
  await client.del('hf:boot')
  await at(100, { boot: 'b', offset: 1, replicas: 1 })
  assert.equal(await someone().comes(), 'granted')
  await at(200)
  assert.equal(await old.comes(), 'granted', 'what was lost, was lost when this life began')
})

test('a promoted server that does not say so any more lives on', async () => {
  const old = await settled()
  await at(1000, { boot: 'replica', promoted: true, offset: 1 })
  assert.equal(await old.comes(), 31)
  await at(1031)
  assert.equal(await old.ask(), 'granted')
  await at(5000, { boot: 'replica', offset: 1 })
  assert.equal(await old.ask(), 'granted')
  assert.equal(await old.comes(), 'granted')
  assert.equal(await someone().comes(), 'granted')
  assert.equal(await old.ask(), 'granted', 'it is still the server that was met')
})

test('a restart of a server that had synced every write, and does, forgets nothing', async () => {
  await at(0, { boot: 'a', aof: true })
  const old = someone()
  assert.equal(await old.meet(), 'aof', 'it asks for what INFO does not tell')
  await old.meet('1')
  assert.equal(await old.ask(), 'granted')
  await at(100, { boot: 'b', began: 99, aof: true })
  for (const one of [someone(), old]) {
    await one.meet('1')
    assert.equal(await one.ask(), 'granted')
  }
})

for (const [what, before, later, always] of [
  ['had not synced every write before', '0', {}, '1'],
  ['does not any more', '1', {}, '0'],
  ['has a replica', '1', { replicas: 1 }, '1'],
  ['was promoted', '1', { promoted: true }, '1'],
  ['may have been promoted', '1', { offset: 1 }, '1'],
] as const)
  test(`a restart of a server that ${what} may have forgotten`, async () => {
    await at(0, { boot: 'a', aof: true })
    const old = someone()
    await old.meet(before)
    await at(100, { boot: 'b', began: 100, aof: true, ...later })
    const one = someone()
    await one.meet(always)
    assert.equal(await one.ask(), 31)
  })

test('a server that synced every write but lost its data is noticed by a process that knew the data', async () => {
  await at(0, { boot: 'a', aof: true })
  const old = someone()
  await old.meet('1')
  await client.del('hf:boot')
  await at(100, { boot: 'b', began: 99, aof: true })
  await old.meet('1')
  assert.equal(await old.ask(), 30)
})

test('a longer maxTtl of one process holds for all that come after', async () => {
  await settled({ maxTtl: 600 })
  await at(10, { boot: 'b', began: 10 })
  assert.equal(await someone().comes(), 601)
})

test('a longer maxTtl that was lost with the data is restored by a process that knew it', async () => {
  const long = await settled({ maxTtl: 600 })
  await client.del('hf:boot')
  await at(10, { boot: 'b', began: 10 })
  const short = someone()
  assert.equal(await short.comes(), 31)
  await at(20)
  assert.equal(await long.comes(), 591)
  assert.equal(await short.ask(), 591)
})

test('a newcomer with a longer maxTtl lengthens a quarantine, because of others like it', async () => {
  const short = await settled()
  await at(10, { boot: 'b', began: 10 })
  assert.equal(await short.comes(), 31)
  assert.equal(await someone({ maxTtl: 600 }).comes(), 601)
})

test('a clock set back does not make a quarantine longer than the longest ttl', async () => {
  await at(10_000, { boot: 'a', began: 9_999 })
  const one = someone()
  assert.equal(await one.comes(), 30)
  await at(0, { boot: 'a', began: -1 })
  assert.equal(await one.ask(), 31)
  await at(20)
  assert.equal(await one.ask(), 11)
  await at(32)
  assert.equal(await one.ask(), 'granted')
})

test('a clock set back costs newcomers one quarantine together, not one each until it has caught up', async () => {
  await at(10_000, { boot: 'a', began: 9_999 })
  const one = someone()
  assert.equal(await one.comes(), 30)
  await at(0, { boot: 'a', began: 9_999 })
  assert.equal(await someone().comes(), 31)
  await at(20)
  assert.equal(await someone().comes(), 11)
  assert.equal(await one.comes(), 11)
  await at(32)
  assert.equal(await someone().comes(), 'granted')
  assert.equal(await one.comes(), 'granted')
  await at(40, { boot: 'b', began: 10_000 })
  assert.equal(await someone().comes(), 31)
  await at(72)
  assert.equal(await someone().comes(), 'granted')
})

test('a FLUSHALL that was refused has deleted nothing', async () => {
  await at(0, { boot: 'a', called: 'flushall:calls=0,usec=0,rejected_calls=1\r\ncmdstat_get' })
  assert.equal(await someone().comes(), 'granted')
})

test('a server that does not let INFO be called is not judged', async () => {
  await client.del('info')
  assert.equal(await someone().meet(), 'noinfo')
  assert.equal(await client.exists('hf:boot'), 0)
})

test('while nothing is granted, a release frees the lock but hands it to nobody', async () => {
  const one = await settled()
  const keys = ['hf:boot', ...lockKeys('hf:', `lock ${++lock}`)]
  const waits = ['1 1 1 9000000000 0', '']
  await client.evalsha(shas.acquire, 4, ...keys, ...one.header(), 'holder', 'x', '60000000', ...waits)
  await client.evalsha(shas.acquire, 4, ...keys, ...one.header(), 'waiter', 'x', '60000000', ...waits)
  await at(1, { boot: 'b', began: 1 })
  await one.meet()
  assert.equal(await client.evalsha(shas.release, 4, ...keys, ...one.header(), 'holder', '0'), 1)
  assert.match(String(await client.hget(keys[1] ?? '', 's')), /^- 1 /)
  await at(40)
  const item = ['waiter', 'x', '60000000', ...waits]
  const reply = await client.evalsha(shas.acquire, 4, ...keys, ...one.header(), ...item)
  assert.match(String(reply), /^\d+ 0$/)
})

after(leakCheck)
