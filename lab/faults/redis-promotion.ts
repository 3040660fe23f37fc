/** A server is replaced, behind its address, by a promoted replica that lacks the newest writes. */
import type { RedisServer } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import { subjectNames } from './redis-servers.js'
import type { Fault } from './store.js'

/**
 * The spare server copies the one in question and stops copying; some time later the server takes over that copy, its own writes since are gone, and it is promoted.
 * As at a fail-over, the clients' connections are closed.
 */
export function promoteStale(servers: readonly RedisServer[], spare: RedisServer, apart: number): Fault {
  return {
    kind: 'server: promote a replica that lacks the newest writes',
    subjects: subjectNames(servers),
    // There is only one spare server.
    also: ['spare server'],
    lasts: [0.1, 1],
    apart,
    begin: async ({ n }) => {
      const server = servers[n] as RedisServer
      await follow(spare, server)
      return async () => {
        await follow(server, spare)
        await server.cli('CLIENT', 'KILL', 'TYPE', 'normal')
      }
    },
  }
}

/** Copies the data of `master`, and is a master itself from then on. */
async function follow(server: RedisServer, master: RedisServer): Promise<void> {
  const order = (...args: string[]) =>
    server.cli(...args).then(
      () => true,
      () => false,
    )
  const within = 30_000
  await until(() => order('REPLICAOF', master.host, String(master.port)), { within })
  const copied = async () =>
    String(await server.cli('INFO', 'replication').catch(() => '')).includes('master_link_status:up')
  await until(copied, { within, what: `the server on port ${server.port} to copy another` })
  await until(() => order('REPLICAOF', 'NO', 'ONE'), { within })
}
