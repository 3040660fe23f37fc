/** Forged notifications on PostgreSQL: the forger may select from holdfast's tables, and may listen and notify, which needs no privilege. */
import { Client } from 'pg'
import type { PostgresServer } from '../../test/support/servers/postgres.js'
import { chance } from './chance.js'
import { forge, Listener } from './forger.js'
import { repeatEvery } from './sequences.js'
import type { Fault, Undo } from './store.js'

const ignore = () => undefined
/** A role that may only read. */
const reader = 'lab_reader'

export async function createReader(server: PostgresServer): Promise<void> {
  await server.sql(`create role ${reader} login`)
  await server.sql(`grant select on all tables in schema public to ${reader}`)
}

export function forgedNotifications(server: PostgresServer): Fault {
  return {
    kind: 'forged messages',
    subjects: ['forger'],
    weight: 3,
    lasts: [0.5, 4],
    gentle: true,
    begin: ({ amount }) => forgeAt(server, amount),
  }
}

/** One connection at a time; if it breaks, opens another. */
function forgeAt({ host, port }: PostgresServer, amount: number): Undo {
  const random = chance(Math.floor(amount * 2 ** 32))
  const listener = new Listener()
  const listening = new Set<string>()
  let client: Client | undefined
  const connected = async (): Promise<Client> => {
    if (client !== undefined) return client
    const next = new Client({ host, port, user: reader, database: 'postgres' })
    const gone = () => {
      if (client === next) client = undefined
      listening.clear()
    }
    next.on('error', gone)
    next.on('end', gone)
    next.on('notification', ({ channel, payload }) => listener.onChannel(channel, payload ?? ''))
    await next.connect()
    client = next
    return next
  }
  const undo = repeatEvery(4, async () => {
    const sender = await connected().catch(ignore)
    if (sender === undefined) return
    if (listening.size === 0 || random.next() < 0.05) await look(sender, listener, listening).catch(ignore)
    const forged = forge(listener, random)
    if (forged === undefined) return
    listener.sends(forged.text)
    await sender.query('select pg_notify($1, $2)', [forged.channel, forged.text]).catch(ignore)
  })
  return async () => {
    await undo?.()
    await client?.end().catch(ignore)
  }
}

/** The tables contain attempts and the channels of their processes. */
async function look(client: Client, listener: Listener, listening: Set<string>): Promise<void> {
  for (const table of ['holdfast_locks', 'holdfast_holds', 'holdfast_waiters']) {
    const { rows } = await client.query(`select channel, t::text as row from ${table} t limit 200`)
    for (const { channel, row } of rows as { channel: string | null; row: string }[]) {
      listener.onMessage(row)
      if (channel === null || listening.has(channel)) continue
      await client.query(`listen "${channel}"`)
      listening.add(channel)
    }
  }
  for (const channel of listening) listener.knows(channel)
}
