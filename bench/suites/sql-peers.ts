/** The npm libraries that lock in PostgreSQL and a polled row, beside holdfast, on the same server in the same run. */
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { type PostgresServer, startPostgres } from '../../test/support/servers/postgres.js'
import type { Comparison, Row } from '../figure.js'
import { gaps } from '../hand-over.js'
import { installPeers } from '../peer-packages.js'
import { ratio, takeTurns, type Work } from '../rounds.js'
import { quantile, type Spread, spread } from '../spread.js'
import { type Contender, findRecipe, recipes } from '../sql/recipes.js'
import type { Scale } from '../suite.js'
import { type Member, startWorker } from '../worker-process.js'
import type { SqlMember } from '../workers/sql-member.js'

const suite = 'sql-peers'
const ids = Object.keys(recipes)
/** Processes, and waiters per process. */
const [processes, each] = [4, 4]

export async function measureSqlPeers(scale: Scale): Promise<readonly Comparison[]> {
  installPeers()
  // Logging a statement costs every contender the same, and is how statements are counted.
  await using server = await startPostgres({ settings: { log_statement: 'all' } })
  await using quiet = await startPostgres()
  return [await uncontended(quiet.url, scale), await handOffs(quiet, server, scale)]
}

async function uncontended(url: string, { effort }: Scale): Promise<Comparison> {
  const open = new Map<string, Contender>()
  for (const id of ids.filter((id) => !id.endsWith('-fast'))) open.set(id, await findRecipe(id).open(url))
  const works = Object.fromEntries(
    [...open].map(([id, { take }]): [string, Work] => [
      id,
      async (n) => {
        for (let i = 0; i < n; i++) await (await take(`alone ${id}`))()
      },
    ]),
  )
  const rates = await takeTurns(works, effort)
  for (const contender of open.values()) await contender.close()
  const rows = [...open.keys()].map((id) =>
    row(id, [spread(rates[id] ?? []), ratio(rates[id] ?? [], rates['bare'] ?? [])]),
  )
  return {
    suite,
    what: 'Uncontended acquire + release in PostgreSQL, one by one, fsync off',
    columns: ['per second', 'of the bare floor'],
    rows,
  }
}

async function handOffs(quiet: PostgresServer, logging: PostgresServer, scale: Scale): Promise<Comparison> {
  const rows: Row[] = []
  for (const id of ids) {
    const timed = await withWorkers(id, quiet.url, async (members) => {
      const bursts = []
      for (let run = 0; run < Math.min(3, scale.effort.rounds); run++)
        bursts.push(await burst(id, quiet.url, members))
      return bursts
    })
    rows.push(row(id, [...times(timed), ...(await countWhileWaiting(id, logging, scale.still))]))
  }
  return {
    suite,
    what: `Hand-off in PostgreSQL, ${processes * each} waiters in ${processes} processes, fsync off`,
    columns: [
      ...['hand-offs/s', 'gap p50 ms', 'gap p99 ms'],
      ...['statements/s while waiting', 'statements of a hand-off', 'connections while waiting'],
    ],
    rows,
    note: 'Statements of a hand-off: those sent from the first release on, by all. Connections: without the holder’s. syncguard is not on the npm registry.',
  }
}

function times(bursts: readonly (readonly number[])[]): Spread[] {
  const perSecond = bursts.map((found) => found.length / (found.reduce((sum, gap) => sum + gap, 0) / 1000))
  const at = (q: number) =>
    spread(
      bursts.map((found) =>
        quantile(
          found.toSorted((a, b) => a - b),
          q,
        ),
      ),
    )
  return [spread(perSecond), at(0.5), at(0.99)]
}

type WorkerProcesses = readonly Member<SqlMember>[]

async function withWorkers<R>(
  id: string,
  url: string,
  use: (members: WorkerProcesses) => Promise<R>,
): Promise<R> {
  const module = new URL('../workers/sql-member.js', import.meta.url)
  const members = Array.from({ length: processes }, () => startWorker<SqlMember>(module, [id, url]))
  try {
    for (const member of members) await member.ask('open')
    return await use(members)
  } finally {
    await Promise.all(members.map((member) => member.stop()))
  }
}

/** Milliseconds from each release to the next grant: all waiters queue behind one holder, which then releases. */
async function burst(id: string, url: string, members: WorkerProcesses): Promise<readonly number[]> {
  const holder = await findRecipe(id).open(url)
  const name = `burst ${randomUUID()}`
  const release = await holder.take(name)
  await Promise.all(members.map((member) => member.ask('standInLine', name, each)))
  await setTimeout(500)
  await release()
  const turns = (await Promise.all(members.map((member) => member.ask('turns')))).flat()
  await holder.close()
  return gaps(turns)
}

async function countWhileWaiting(
  id: string,
  server: PostgresServer,
  still: number,
): Promise<readonly Spread[]> {
  const logged = () => server.log().match(/LOG: {2}(?:execute|statement)/g)?.length ?? 0
  const connections = async () => {
    const [found] = await server.sql(
      `select count(*)::int as n from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
    )
    return Number(found?.['n'])
  }
  const holder = await findRecipe(id).open(server.url)
  const name = `count ${randomUUID()}`
  const release = await holder.take(name)
  const ofTheHolder = await connections()
  return withWorkers(id, server.url, async (members) => {
    await Promise.all(members.map((member) => member.ask('standInLine', name, each)))
    await setTimeout(1000)
    const before = logged()
    await setTimeout(still)
    const waiting = logged() - before
    const open = (await connections()) - ofTheHolder
    const start = logged()
    await release()
    await Promise.all(members.map((member) => member.ask('turns')))
    const passing = logged() - start
    await holder.close()
    return [one((waiting / still) * 1000), one(passing / (processes * each)), one(open)]
  })
}

const one = (value: number) => spread([value])

function row(id: string, values: readonly Spread[]): Row {
  const { name, settings } = findRecipe(id)
  return { library: name, settings, values }
}
