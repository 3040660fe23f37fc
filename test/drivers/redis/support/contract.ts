// What a client of any version and with any options is to do: take, wait without asking, learn of its turn.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createLocks, type Locks } from '../../../../src/create-locks.js'
import { type RedisOptions, redis } from '../../../../src/drivers/redis/index.js'
import type { RedisServer } from '../../../support/servers/redis.js'
import { until } from '../../../support/until.js'
import { pause, withoutLooking } from './peer.js'
import type { Place } from './place.js'
import type { ClientOptions, Version } from './versions.js'

export interface Process {
  readonly locks: Locks
  close(): Promise<void>
}

/** As another process would be: a client of its own, and no timer by which it would look by itself. */
export async function joined(
  t: TestContext,
  version: Version,
  place: Place,
  options: ClientOptions = {},
  group: ClientOptions = {},
  more: Partial<RedisOptions> = {},
): Promise<Process> {
  const { client, start, close } = await version.open(place, options, group)
  await start()
  // These servers are young: a lock that they do not know they could have forgotten.
  const driver = redis({ client, quarantine: 'off', ...more })
  const locks = createLocks((env) => driver({ ...env, clock: withoutLooking(env.clock) }))
  const ended = async () => {
    await locks.close()
    close()
  }
  t.after(ended)
  return { locks, close: ended }
}

/** Scripts that clients have had this server run. */
async function scriptsRun(server: RedisServer): Promise<number> {
  const stats = String(await server.cli('INFO', 'commandstats'))
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0)
}

/** A lock that is held is waited for without asking, and had when it is released. */
export async function handsOver(
  a: Process,
  b: Process,
  name: string,
  server: RedisServer,
  key = `hf:{${name}}`,
  db = 0,
): Promise<void> {
  for (let round = 0; round < 3; round++) {
    const lease = await a.locks.mutex(name).acquire({ ttl: 30_000 })
    const waiting = b.locks.mutex(name).acquire({ ttl: 30_000, wait: 10_000 })
    await until(async () => {
      const all = await inDatabase(server, db, key)
      return all.some((text, i) => all[i - 1]?.startsWith('w:') && text.includes(' hf:c:'))
    })
    const before = await scriptsRun(server)
    await pause(150)
    assert.equal(await scriptsRun(server), before, 'it polls')
    assert.equal(await lease.release(), 'released')
    const next = await waiting
    assert.ok(next.token > lease.token)
    assert.ok(next.isHeld)
    assert.equal(await next.release(), 'released')
  }
}

async function inDatabase(server: RedisServer, db: number, key: string): Promise<readonly string[]> {
  const client = await server.client()
  try {
    if (db > 0) await client.send('SELECT', db)
    return (await client.send('HGETALL', key)) as string[]
  } finally {
    client.close()
  }
}
