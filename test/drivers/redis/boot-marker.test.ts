// When a server is not trusted with new locks, and for how long: the rule in the scripts, on a clock of the test's own.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Redis } from 'ioredis'
import { keysOf } from '../../../src/drivers/redis/keys.js'
import { acquire } from '../../../src/drivers/redis/scripts/acquire.js'
import { release } from '../../../src/drivers/redis/scripts/verbs.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'

const server = await startRedis()
const client = new Redis(server.port)
after(async () => {
  client.disconnect()
  await server.stop()
})

const shas = { acquire: '', release: '' }
before(async () => {
  for (const script of [acquire, release]) {
    const text = script.text.replace("call('TIME')", "{ call('GET', 'clock'), 0 }")
    shas[script.name as 'acquire'] = String(await client.script('LOAD', text))
  }
})

/** A process as a server sees it: which server it thinks that is, since when, and what it has seen. */
interface Process {
  readonly boot: string
  /** Second at which that server started; 0 = it was promoted, or the data went at an unknown time. */
  readonly since?: number
  readonly maxTtl?: number
  /** It knows that there were locks before. */
  readonly strict?: boolean
}

let lock = 0
const start = 1_700_000_000

async function at(second: number): Promise<void> {
  await client.set('clock', start + second)
}

function head({ boot, since = 0, maxTtl = 30, strict = false }: Process): string[] {
  const max = maxTtl * 1e6
  const began = since === 0 ? 0 : (start + since) * 1e6
  return [`0 ${max} ${boot}`, '- host:1', '65536', '600000', `${boot} ${began} ${max} ${strict ? 1 : 0} 0`]
}

/** Asks for a lock nobody has asked for before: 'granted', or for how many seconds more nothing is. */
async function ask(who: Process): Promise<string | number> {
  const keys = ['hf:boot', ...keysOf('hf:', `lock ${++lock}`)]
  const item = [`attempt ${lock}`, 'x', '1000000', '1 1 0 1 0 0', '']
  const reply = await client.evalsha(shas.acquire, 4, ...keys, ...head(who), ...item)
  return Array.isArray(reply) ? Number(reply[1]) / 1e6 : 'granted'
}

async function forget(): Promise<void> {
  await client.del('hf:boot')
}

test('first use of a server nobody knows is granted, and leaves the marker', async () => {
  await forget()
  await at(0)
  assert.equal(await ask({ boot: 'one' }), 'granted')
  assert.equal(await client.get('hf:boot'), '0 30000000 one')
  assert.equal(await ask({ boot: 'one' }), 'granted')
})

test('a restart with its data is barred until what it may have forgotten has run out, counted from its start', async () => {
  await forget()
  await at(0)
  await ask({ boot: 'one' })
  await at(100)
  const later = { boot: 'two', since: 95 }
  assert.equal(await ask(later), 26)
  await at(110)
  assert.equal(await ask(later), 16)
  assert.equal(await ask({ boot: 'two' }), 16, 'for everybody, whatever they know')
  await at(126)
  assert.equal(await ask(later), 'granted')
  assert.equal(await client.get('hf:boot'), '0 30000000 two')
})

test('a restart found long afterwards is not barred', async () => {
  await forget()
  await at(0)
  await ask({ boot: 'one' })
  await at(1000)
  assert.equal(await ask({ boot: 'two', since: 100 }), 'granted')
})

test('a promotion is barred from the moment it is noticed, for nobody knows when it was', async () => {
  await forget()
  await at(0)
  await ask({ boot: 'master' })
  await at(1000)
  assert.equal(await ask({ boot: 'replica' }), 31)
  await at(1031)
  assert.equal(await ask({ boot: 'replica' }), 'granted')
})

test('a missing marker means lost data to those who saw it, or are strict, and to nobody else', async () => {
  await forget()
  await at(0)
  assert.equal(await ask({ boot: 'one', strict: true }), 31)
  await forget()
  assert.equal(await ask({ boot: 'one', strict: true, since: -5 }), 26)
  await forget()
  assert.equal(await ask({ boot: 'one', since: -5 }), 'granted')
})

test('a longer ttl is remembered, and counts at the next restart for those who do not know it', async () => {
  await forget()
  await at(0)
  await ask({ boot: 'one', maxTtl: 600 })
  assert.equal(await ask({ boot: 'one', maxTtl: 30 }), 'granted')
  await at(10)
  assert.equal(await ask({ boot: 'two', since: 10 }), 601)
})

test('requests of before the change turn the marker back, and bar nothing for good', async () => {
  await forget()
  await at(0)
  const [old, fresh] = [
    { boot: 'one', strict: true },
    { boot: 'two', since: 1, strict: true },
  ]
  await at(2)
  assert.equal(await ask(fresh), 30)
  assert.equal(await ask(old), 31, 'what comes from the past is granted nothing either')
  assert.equal(await ask(fresh), 31)
  assert.equal(await ask(old), 31)
  assert.equal(await ask(fresh), 31)
  await at(33)
  assert.equal(await ask(fresh), 'granted')
  assert.equal(await ask(fresh), 'granted')
})

test('a clock set back does not make a quarantine longer than the longest ttl', async () => {
  await forget()
  await at(10_000)
  await ask({ boot: 'one', strict: true })
  await at(0)
  assert.equal(await ask({ boot: 'one' }), 31)
})

test('while nothing is granted, a release frees the lock but hands it to nobody', async () => {
  await forget()
  await at(0)
  const name = `lock ${++lock}`
  const keys = ['hf:boot', ...keysOf('hf:', name)]
  const one = { boot: 'one' }
  const waits = ['1 1 1 1 9000000000 30000000', '']
  await client.evalsha(shas.acquire, 4, ...keys, ...head(one), 'holder', 'x', '60000000', ...waits)
  await client.evalsha(shas.acquire, 4, ...keys, ...head(one), 'waiter', 'x', '60000000', ...waits)
  await at(1)
  await ask({ boot: 'two' })
  assert.equal(await client.evalsha(shas.release, 4, ...keys, ...head({ boot: 'two' }), 'holder', '0'), 1)
  assert.match(String(await client.hget(keys[1] ?? '', 's')), /^- 1 /)
  await at(40)
  const item = ['waiter', 'x', '60000000', ...waits]
  const reply = await client.evalsha(shas.acquire, 4, ...keys, ...head({ boot: 'two' }), ...item)
  assert.match(String(reply), /^\d+ 0$/)
})

after(leakCheck)
