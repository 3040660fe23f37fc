// One process's worth of holdfast on a server: a pool of its own, the locks. Everything is closed at the end of the test.
import type { Env } from '../../../../src/core/driver.js'
import { createLocks, type Locks } from '../../../../src/create-locks.js'
import { type MysqlOptions, mysql } from '../../../../src/drivers/mysql/index.js'
import type { MysqlServer, Row } from '../../../support/servers/mysql.js'
import { until } from '../../../support/until.js'
import { type Library, open } from './clients.js'

export interface PeerOptions extends Partial<MysqlOptions> {
  readonly library?: Library
  /** Connections in its pool. Default 5. */
  readonly size?: number
  /** Isolation of its transactions. Default: the server's. */
  readonly level?: string
  readonly env?: Partial<Env>
}

interface Ends {
  after(fn: () => Promise<void>): void
}

export function peer(
  t: Ends,
  port: number,
  { library = 'mysql2', size, level, env, ...options }: PeerOptions = {},
): Locks {
  const { pool, close } = open(library, port, size, level)
  const locks = createLocks((given) => mysql({ pool, ...options } as MysqlOptions)({ ...given, ...env }))
  t.after(async () => {
    await locks.close()
    close()
  })
  return locks
}

const counted = [
  'Com_select',
  'Com_update',
  'Com_update_multi',
  'Com_insert',
  'Com_delete',
  'Com_do',
  'Com_set_option',
  'Com_begin',
]

/** How many statements of each kind `work` made the server run. */
export async function statements(
  server: MysqlServer,
  work: () => Promise<unknown>,
): Promise<Record<string, number>> {
  const read = async () => {
    const rows = await server.query(`show global status like 'Com\\_%'`)
    return new Map(rows.map((row) => [String(row['Variable_name']), Number(row['Value'])]))
  }
  // Looking is counted, too: what a look costs by itself is taken off.
  const first = await read()
  const second = await read()
  await work()
  const third = await read()
  const cost = (name: string) => (third.get(name) ?? 0) - 2 * (second.get(name) ?? 0) + (first.get(name) ?? 0)
  return Object.fromEntries(
    counted.map((name) => [name.slice(4), cost(name)] as const).filter(([, count]) => count !== 0),
  )
}

/** Connections of everybody but the one that asks. */
export async function connections(server: MysqlServer): Promise<readonly number[]> {
  const rows: readonly Row[] = await server.query(
    `select id from information_schema.processlist where id <> connection_id() and user = 'root'`,
  )
  return rows.map((row) => Number(row['id'] ?? row['ID']))
}

/** Kills every connection there is. Resolves with how many, once they have ended and their clients can know; those that ended meanwhile do not matter. */
export async function killAll(server: MysqlServer): Promise<number> {
  const all = await connections(server)
  for (const id of all) await server.query(`kill ${id}`).catch(() => undefined)
  const left = async () => (await connections(server)).filter((id) => all.includes(id)).length
  await until(async () => (await left()) === 0, { what: 'the connections to end' })
  return all.length
}

/** How many the server has seen since it was first asked. */
export async function deadlocks(server: MysqlServer): Promise<number> {
  await server.query(`set global innodb_monitor_enable = 'lock_deadlocks'`)
  const [row] = await server.query(
    `select count as n from information_schema.innodb_metrics where name = 'lock_deadlocks'`,
  )
  return Number(row?.['n'])
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
