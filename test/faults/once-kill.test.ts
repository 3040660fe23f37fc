// Idempotency under kill -9: requests that are sent twice and repeated after a crash have one effect and one result. And the proof that the
// same loop sees a record that is kept without a transaction.
// Second tier because it starts some dozens of processes for each store; locks/once is the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { mysql2, onceSchema, pg, type Sql } from '../../src/guard/index.js'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { judge, type LoopResult, onceLoop } from './support/once-loop.js'

/** Each of the five moments once with each of the two processes. */
const rounds = 10
/** A record without a transaction is found in the first of them: both processes look before either has noted anything. */
const roundsOfTheBroken = 2

after(leakCheck)

interface Place extends AsyncDisposable {
  readonly store: 'postgres' | 'mysql'
  readonly url: string
  readonly db: Sql
}

async function postgresPlace(): Promise<Place> {
  const server = await startPostgres()
  const pool = new Pool({ connectionString: server.url, max: 2 })
  return {
    store: 'postgres',
    url: server.url,
    db: pg(pool),
    [Symbol.asyncDispose]: async () => {
      await pool.end()
      await server.stop()
    },
  }
}

async function mysqlPlace(flavour: 'mysql' | 'mariadb'): Promise<Place> {
  const server = await startMysql({ flavour })
  const pool = createPool({ uri: server.url, connectionLimit: 2 })
  return {
    store: 'mysql',
    url: server.url,
    db: mysql2(pool),
    [Symbol.asyncDispose]: async () => {
      await pool.end()
      await server.stop()
    },
  }
}

const places: Readonly<Record<string, () => Promise<Place>>> = {
  postgres: postgresPlace,
  mysql: () => mysqlPlace('mysql'),
  mariadb: () => mysqlPlace('mariadb'),
}

async function loopOver({ store, url, db }: Place, broken: boolean): Promise<LoopResult> {
  for (const text of [
    ...onceSchema(db.dialect),
    'create table effects (name varchar(100), run varchar(100))',
    'create table noted (name varchar(100) primary key, result text)',
  ])
    await db.run(text, [])
  const find = `select run from effects where name = ${db.dialect === 'mysql' ? '?' : '$1'}`
  return await onceLoop({
    task: { store, url, broken },
    rounds: broken ? roundsOfTheBroken : rounds,
    effects: async (key) => (await db.run(find, [key])).rows.map((row) => `${row['run']}`),
    keepsEffectsOfTheKilled: false,
  })
}

for (const [name, open] of Object.entries(places)) {
  test(`${name}: once in a transaction has one effect and one result, whenever a process is killed`, async (t) => {
    await using place = await open()
    const { findings, ...counts } = await loopOver(place, false)
    t.diagnostic(JSON.stringify(counts))
    assert.deepEqual(findings, [])
    assert.ok(counts.kills >= 2, `${counts.kills} kills only`)
    assert.ok(counts.repeated >= rounds, `${counts.repeated} repeated answers only`)
  })

  test(`${name}: the loop sees a record that is kept without a transaction`, async () => {
    await using place = await open()
    const { findings } = await loopOver(place, true)
    assert.ok(
      findings.some((text) => text.includes('2 effects')),
      findings.join('\n'),
    )
  })
}

test('redis: locks.once gives one result to everybody, and only a killed process leaves another effect', async (t) => {
  await using server = await startRedis()
  const client = new Redis(server.url)
  try {
    const { findings, ...counts } = await onceLoop({
      task: { store: 'redis', url: server.url },
      rounds,
      effects: (key) => client.lrange(`effects:${key}`, 0, -1),
      keepsEffectsOfTheKilled: true,
    })
    t.diagnostic(JSON.stringify(counts))
    assert.deepEqual(findings, [])
    assert.ok(counts.kills >= 2, `${counts.kills} kills only`)
    assert.ok(counts.repeated >= rounds, `${counts.repeated} repeated answers only`)
  } finally {
    client.disconnect()
  }
})

test('the judge of the loop sees every kind of mistake', () => {
  const answer = (run: string, key = 'k') => ({
    answered: 'k',
    outcome: { result: { key, run }, repeated: false },
  })
  const alive = () => false
  assert.deepEqual(judge('k', [answer('1:1'), answer('1:1')], ['1:1'], alive), [])
  assert.deepEqual(
    judge('k', [answer('1:1')], ['2:1', '1:1'], (run) => run.startsWith('2:')),
    [],
  )
  for (const [answers, effects, text] of [
    [[], ['1:1'], /no answer/],
    [[{ answered: 'k', error: 'Error: broken' }, answer('1:1')], ['1:1'], /broken/],
    [[answer('1:1'), answer('2:1')], ['1:1'], /different results/],
    [[answer('1:1', 'other')], ['1:1'], /the result of other/],
    [[answer('1:1')], [], /without its effect/],
    [[answer('1:1')], ['1:1', '2:1'], /2 effects/],
  ] as const)
    assert.match(judge('k', answers, effects, alive).join('\n'), text)
})
