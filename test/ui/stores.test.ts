// The page over every store that a URL can name: a holder and a waiter are shown, and the lock is taken by force.
// Second tier because it starts one server of each kind.
import '../support/background.js'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { lockPage } from 'holdfast/ui'
import { target } from '../../src/cli/connect.js'
import type { Init, Tick } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startMany, startRedis } from '../support/servers/redis.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { send, serving, stream } from './support.js'

interface Store {
  readonly url: string
  stop(): unknown
}

function named(scheme: string, server: { readonly port: number; stop(): Promise<void> }): Store {
  return { url: `${scheme}://127.0.0.1:${server.port}`, stop: () => server.stop() }
}

const stores: Readonly<Record<string, () => Store | Promise<Store>>> = {
  local() {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-ui-'))
    return { url: `local:${folder}`, stop: () => rmSync(folder, { recursive: true, force: true }) }
  },
  redis: () => startRedis(),
  async redlock() {
    const { urls, stop } = await startMany(3)
    return { url: `redlock://${urls.map((url) => new URL(url).host).join(',')}`, stop }
  },
  postgres: () => startPostgres(),
  mysql: () => startMysql(),
  etcd: async () => named('etcd', await startEtcd()),
  zookeeper: async () => named('zookeeper', await startZookeeper()),
  consul: async () => named('consul', await startConsul()),
}

for (const [name, start] of Object.entries(stores))
  test(`${name}: the page shows who holds and who waits`, async () => {
    const store = await start()
    const open = async () => {
      const connection = await target(store.url).connect()
      const locks = createLocks(connection.driver)
      const close = async () => {
        await locks.close()
        await connection.close()
      }
      return { locks, close }
    }
    const clients = [await open(), await open(), await open()] as const
    const [holding, waiting, watching] = clients
    const page = lockPage({
      stores: { main: watching.locks },
      interval: 100,
      allowRelease: true,
      onRelease: () => undefined,
    })
    const site = await serving(page.node)
    const held = await holding.locks.mutex('account:42').acquire({ note: 'first' })
    const end = new AbortController()
    const next = waiting.locks
      .mutex('account:42')
      .acquire({ note: 'second', wait: 60_000, signal: end.signal })
      .catch(() => undefined)
    {
      // By its name, which also shows it where the store cannot list names (redlock).
      await using events = await stream(`${site.url}/events?store=main&name=account%3A42`)
      const { key } = await events.next<Init>('init')
      const lines = waiting.locks.driver.traits.queue !== false
      const { changed } = await events.next<Tick>('tick', (tick) =>
        tick.changed.some((entry) => entry.holders.length === 1 && (!lines || entry.waiting === 1)),
      )
      const [entry] = changed
      assert.deepEqual(
        [entry?.name, entry?.holders[0]?.token, entry?.holders[0]?.note],
        ['account:42', held.token, 'first'],
      )
      const headers = { 'x-holdfast-key': key }
      const wish = { store: 'main', name: 'account:42', tokens: [held.token], why: 'stuck' }
      const reply = await send(`${site.url}/release`, {
        method: 'POST',
        headers,
        body: JSON.stringify(wish),
      })
      assert.deepEqual([reply.status, reply.body], [200, '{"outcome":"forced"}'])
      await events.next<Tick>('tick', ({ past }) => past.some((hold) => hold.end === 'forced'))
    }
    end.abort()
    await (await next)?.release()
    await held.release()
    page.close()
    await site.close()
    for (const client of clients) await client.close()
    await store.stop()
  })

after(leakCheck)
