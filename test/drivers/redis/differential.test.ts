// The scripts on a real server against the reference table. TIME is read from two keys that the test sets.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { toLockStatus } from '../../../src/drivers/redis/inspect.js'
import { lockKeys } from '../../../src/drivers/redis/keys.js'
import { acquire } from '../../../src/drivers/redis/scripts/acquire.js'
import type { Script } from '../../../src/drivers/redis/scripts/batch-script.js'
import { inspect } from '../../../src/drivers/redis/scripts/inspect.js'
import { cancel, downgrade, force, release, renew } from '../../../src/drivers/redis/scripts/verbs.js'
import { sequences } from '../../support/amounts.js'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, startRedis } from '../../support/servers/redis.js'
import { clientName, letters, sameAsTable, type Twin } from '../support/twins.js'

const channel = 'hf:c:differential'
const scripts = [acquire, release, renew, cancel, downgrade, force, inspect]
const runs: readonly (readonly [Flavour, boolean])[] = [
  ['redis7', true],
  ['redis7', false],
  ['valkey8', true],
  ['redis8', true],
]
const { properties, each } = sequences['drivers/redis/differential']
assert.equal(runs.length, properties)

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
      await sameAsTable({ sequences: each, longest: 60 }, pushes, (lock) =>
        twinOf(redis, shas, `lock ${lock} {tag}`),
      )
    } finally {
      redis.disconnect()
    }
  })
}

let orders = 0

function twinOf(redis: Redis, shas: ReadonlyMap<Script, string>, name: string): Twin {
  const keys = lockKeys('hf:', name)
  const evaluate = async (now: number, script: Script, args: readonly string[]): Promise<unknown> => {
    const seconds = Math.floor(now / 1000)
    const clock = redis.mset('clock:s', seconds, 'clock:us', (now - seconds * 1000) * 1000)
    const reply = redis.evalsha(shas.get(script) ?? '', 3, ...keys, ...args)
    return (await Promise.all([clock, reply]))[1]
  }
  const run = (now: number, script: Script, ...item: string[]) =>
    evaluate(now, script, ['', `${channel} ${clientName}`, '65536', '600000', '0', ...item])
  return {
    name,
    async acquire(now, { attempt, mode, ttl, note, wait }) {
      const take = mode.kind === 'permits' ? `${mode.take} ${mode.of}` : '1 1'
      const rest = `${take} ${wait ? 1 : 0} ${1e15} 0`
      return acquired(await run(now, acquire, attempt, letters[mode.kind], `${ttl * 1000}`, rest, note))
    },
    renew: (now, attempt, ttl, order) =>
      run(now, renew, attempt, order === undefined ? `${ttl * 1000}` : `${ttl * 1000} ${order}`),
    release: (now, attempt, last) => run(now, release, attempt, `${last}`),
    cancel: (now, attempt) => run(now, cancel, attempt, '0'),
    async downgrade(now, attempt, last) {
      const token = await run(now, downgrade, attempt, `${last}`)
      assert.match(String(token), /^\d+$/)
      return Number(token)
    },
    force: (now) => run(now, force, `order-${++orders}`),
    inspect: async (now) => toLockStatus(name, (await evaluate(now, inspect, [])) as never),
  }
}

function acquired(reply: unknown): string {
  if (reply === 'o') return 'over'
  if (Array.isArray(reply)) return reply[0] === 0 ? 'busy' : `waiting ${reply[0]}`
  const [first, second] = String(reply).split(' ')
  return first === 'l' ? `limit ${second}` : `granted ${first}`
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

after(leakCheck)
