/** Locks in PostgreSQL: their cost beside bare statements and bare notifications on the same server. */
import { randomUUID } from 'node:crypto'
import { createLocks } from 'holdfast'
import { postgres } from 'holdfast/postgres'
import { Client, Pool } from 'pg'
import { type PostgresServer, startPostgres } from '../../test/support/servers/postgres.js'
import { atMost, type Figure } from '../figure.js'
import { gaps } from '../hand-over.js'
import { ratio, takeTurns } from '../rounds.js'
import { quantile, spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { startWorker } from '../worker-process.js'
import type { PostgresMember } from '../workers/postgres-member.js'

const suite = 'postgres'

export async function measurePostgres(scale: Scale): Promise<readonly Figure[]> {
  await using server = await startPostgres({ settings: { synchronous_commit: 'on', fsync: 'on' } })
  await using quick = await startPostgres()
  return [
    await uncontended(server, scale, 'every commit on disk'),
    await uncontended(quick, scale, 'fsync off: the statements alone'),
    await handOver(quick, scale),
  ]
}

/** Statements of one acquire and release, from the log of a server that logs statements. */
async function countStatements(): Promise<number> {
  await using server = await startPostgres({ settings: { log_statement: 'all' } })
  const pool = new Pool({ connectionString: server.url })
  const locks = createLocks(postgres({ pool }))
  const count = () => server.log().match(/LOG: {2}(?:execute|statement)/g)?.length ?? 0
  await locks.mutex('counted').run(() => undefined)
  const before = count()
  for (let i = 0; i < 50; i++) await locks.mutex('counted').run(() => undefined)
  const after = count()
  await locks.close()
  await pool.end()
  return (after - before) / 50
}

async function uncontended(server: PostgresServer, { effort }: Scale, durable: string): Promise<Figure> {
  const pool = new Pool({ connectionString: server.url })
  const locks = createLocks(postgres({ pool }))
  const bare = new Client(server.url)
  await bare.connect()
  await bare.query(
    'create table bare (name text primary key, owner text, token bigint not null) with (fillfactor = 50)',
  )
  await bare.query(`insert into bare values ('a', null, 0)`)
  const take = `update bare set owner = $2, token = token + 1 where name = $1 and owner is null returning token`
  const give = 'update bare set owner = null where name = $1 and owner = $2'
  try {
    const rates = await takeTurns(
      {
        ours: async (n) => {
          for (let i = 0; i < n; i++) await (await locks.mutex('a').acquire()).release()
        },
        floor: async (n) => {
          for (let i = 0; i < n; i++) {
            const owner = randomUUID()
            await bare.query(take, ['a', owner])
            await bare.query(give, ['a', owner])
          }
        },
      },
      effort,
    )
    const of = ratio(rates.ours, rates.floor)
    const statements = await countStatements()
    return {
      suite,
      what: `acquire + release, uncontended, one by one, ${durable}`,
      unit: 'per second',
      ours: spread(rates.ours),
      floor: { what: 'two bare guarded UPDATEs', value: spread(rates.floor), ratio: of },
      counts: { 'statements each': statements },
      aim: { text: '2 statements', met: statements === 2 },
    }
  } finally {
    await locks.close()
    await pool.end()
    await bare.end()
  }
}

async function handOver(server: PostgresServer, scale: Scale): Promise<Figure> {
  const module = new URL('../workers/postgres-member.js', import.meta.url)
  const [one, two] = [1, 2].map(() => startWorker<PostgresMember>(module, [server.url])) as [
    ReturnType<typeof startWorker<PostgresMember>>,
    ReturnType<typeof startWorker<PostgresMember>>,
  ]
  const times = Math.max(2, Math.ceil(scale.handOvers / scale.effort.rounds / 2))
  const ours: number[] = []
  const floor: number[] = []
  let counted = 0
  try {
    await Promise.all([one.ask('open'), two.ask('open')])
    await two.ask('listen', 'bare_floor')
    for (let round = -1; round < scale.effort.rounds; round++) {
      const bare: number[] = []
      for (let i = 0; i < times; i++) {
        await one.ask('notify', 'bare_floor')
        bare.push(...(await two.ask('heard', 1)))
      }
      const name = `turns ${round}`
      const turns = await Promise.all([one.ask('takeTurns', name, times), two.ask('takeTurns', name, times)])
      const found = gaps(turns.flat())
      if (round < 0) continue
      counted += found.length
      ours.push(median(found) * 1000)
      floor.push(median(bare) * 1000)
    }
  } finally {
    await Promise.all([one.stop(), two.stop()])
  }
  const of = ratio(ours, floor)
  return {
    suite,
    what: 'release → the waiting process has it, p50',
    unit: 'µs',
    ours: spread(ours),
    floor: { what: 'a bare pg_notify, sent → heard by the other process', value: spread(floor), ratio: of },
    counts: { 'hand-overs': counted },
    aim: atMost(of.median, 3, '×'),
    note: 'fsync off on both sides: a bare notification writes nothing, and a grant is a commit',
  }
}

const median = (values: readonly number[]) =>
  quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  )
