// The functions on a real server against the reference table. The clock is read from a setting of the session.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Client } from 'pg'
import { toLockStatus } from '../../../src/drivers/postgres/inspect.js'
import { type Calls, createCalls, migration } from '../../../src/drivers/postgres/sql.js'
import { sequences } from '../../support/amounts.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { clientName, letters, sameAsTable, type Twin } from '../support/twins.js'

const channel = 'differential'
const calls: Calls = createCalls('public')
const { each } = sequences['drivers/postgres/differential']

for (const shortCuts of [true, false]) {
  test(`does what the reference table does, ${shortCuts ? 'short cuts included' : 'without the short cuts'}`, async () => {
    await using server = await startPostgres()
    await server.sql(adapted(shortCuts))
    const client = new Client(server.url)
    const pushes: string[] = []
    client.on('notification', ({ payload }) => pushes.push(payload ?? ''))
    await client.connect()
    await client.query(`listen ${channel}`)
    try {
      await sameAsTable({ sequences: each, longest: 40 }, pushes, (lock) => twinOf(client, `twins ${lock}`))
    } finally {
      await client.end()
    }
  })
}

function twinOf(client: Client, name: string): Twin {
  const run = async (
    now: number,
    { text }: { readonly text: string },
    values: readonly unknown[],
  ): Promise<unknown> => {
    await client.query(`select set_config('twins.now', $1, false)`, [String(now)])
    const { rows } = await client.query(text, [...values])
    return JSON.parse(rows[0].answer)
  }
  return {
    name,
    async acquire(now, { attempt, mode, ttl, note, wait }) {
      const [take, of] = mode.kind === 'permits' ? [mode.take, mode.of] : [1, 1]
      const micros = ttl * 1000
      const answer = await run(now, calls.acquire, [
        ...[name, attempt, letters[mode.kind], micros, take, of, wait ? 1 : 0],
        ...[1e15, 0, channel, null, clientName, note, 0],
      ])
      return acquired(answer)
    },
    async renew(now, attempt, ttl, order) {
      const term = order === undefined ? [-ttl * 1000] : [ttl * 1000, null, order]
      const answers = await run(now, calls.renew, [JSON.stringify([[name, attempt, ...term]]), 0])
      assert.ok(Array.isArray(answers) && answers.length === 1, 'one answer for one item')
      return answers[0]
    },
    release: (now, attempt, last) => run(now, calls.release, [name, attempt, last, 0]),
    cancel: (now, attempt) => run(now, calls.cancel, [name, JSON.stringify([attempt]), 1e15, 0]),
    downgrade: (now, attempt, last) => run(now, calls.downgrade, [name, attempt, last, 0]),
    force: (now) => run(now, calls.force, [name, 0]),
    inspect: async (now) => toLockStatus(name, await run(now, calls.inspect, [name])),
  }
}

function acquired(answer: unknown): string {
  const [is, first] = answer as readonly unknown[]
  if (is === 'granted') return `granted ${first}`
  if (is === 'limit') return `limit ${first}`
  if (is === 'over') return 'over'
  return first === 0 ? 'busy' : `waiting ${first}`
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

after(leakCheck)
