// `holdfast doctor` on every kind of store: set up for locks, down, with a wrong login. It leaves nothing behind,
// ends with a code that scripts can use, and prints no password.
// Second tier because it starts every kind of server; smoke.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Diagnosis } from '../../src/cli/doctor/report.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { type Bench, bench, type Ended } from './support/cli.js'
import { absent, type Store, type StoreName, stores } from './support/stores.js'

let b: Bench
before(() => {
  b = bench()
})
after(() => b.close())

const doctor = (url: string, ...more: string[]) => b.cli('doctor', '--on', url, ...more)

function read({ stdout, stderr }: Ended): Diagnosis {
  assert.notEqual(stdout, '', stderr)
  return JSON.parse(stdout) as Diagnosis
}

/** With the servers' defaults: the findings that are not `ok`. */
const doubts: Readonly<Record<StoreName, readonly string[]>> = {
  local: [],
  redis: ['persistence'],
  'redis+sentinel': ['persistence', 'replicas'],
  'redis+cluster': ['quarantine', 'persistence'],
  redlock: ['persistence'],
  postgres: ['durability'],
  'postgres session': ['durability'],
  mysql: ['durability'],
  'mysql session': ['durability'],
  etcd: ['servers'],
  zookeeper: ['servers'],
  consul: ['persistence', 'servers'],
}

for (const name of Object.keys(stores) as StoreName[]) {
  describe(`doctor on ${name}`, { concurrency: false }, () => {
    let store: Store
    before(async () => {
      store = await stores[name]()
    })
    after(() => store.stop())

    it('reports its findings, in words and as data, and exits with their code', async () => {
      const asData = await doctor(store.url, '--json')
      const { verdict, findings } = read(asData)
      const found = findings.filter(({ level }) => level === 'problem' || level === 'warning')
      assert.deepEqual(
        found.map(({ what }) => what),
        doubts[name],
        JSON.stringify(found, undefined, 1),
      )
      const code = { fine: 0, warnings: 2, problems: 1 }[verdict]
      assert.equal(asData.code, code === 2 ? 0 : code)
      const inWords = await doctor(store.url, '--strict')
      assert.equal(inWords.code, code)
      for (const { level, what, found: words, means } of findings) {
        assert.ok(inWords.stdout.includes(what), what)
        if (level === 'ok') continue
        assert.ok(inWords.stdout.includes(words) || /\d ms|MiB/.test(words), words)
        if (level !== 'unknown') assert.ok(means !== undefined && means !== '', `what ${what} means`)
      }
      for (const { stdout, stderr } of [asData, inWords])
        assert.doesNotMatch(stdout + stderr, /right-secret|wrong-secret|7f5ea000/)
    })

    if (name === 'local') return

    // ZooKeeper lets in every login.
    const refuses = name !== 'zookeeper'
    it(`a wrong login ${refuses ? 'is refused' : 'cannot be told'}, and its secret is not repeated`, async () => {
      assert.ok(store.wrong !== undefined)
      const { code, stdout, stderr } = await doctor(store.wrong)
      assert.doesNotMatch(stdout + stderr, /wrong-secret|7f5ea000/)
      if (!refuses) return assert.equal(code, 0)
      assert.equal(code, 69, stdout)
      assert.match(stderr, /the login was refused/)
    })

    it('a store that is down is said to be down', async () => {
      await store.kill?.()
      const { code, stderr } = await doctor(store.url)
      assert.equal(code, 69)
      assert.match(stderr, /the store cannot be reached: .*ECONNREFUSED/)
      const nobody = await doctor(absent[name])
      assert.equal(nobody.code, 69)
      assert.match(nobody.stderr, /127\.0\.0\.1:1 ECONNREFUSED/)
    })
  })
}

describe('doctor leaves nothing behind', { concurrency: 2 }, () => {
  it('local: makes no directory', async () => {
    const directory = join(b.folder, 'never', 'made')
    const { code, stdout } = await doctor(`local:${directory}`)
    assert.equal(code, 0)
    assert.match(stdout, /is made at the first use/)
    assert.ok(!existsSync(join(b.folder, 'never')))
  })

  it('redis: no key', async () => {
    await using server = await startRedis({ isNew: false })
    assert.equal((await doctor(server.url)).code, 0)
    assert.deepEqual(await server.cli('KEYS', '*'), [])
  })

  it('postgres: no table, and says that they would be made', async () => {
    await using server = await startPostgres()
    const { code, stdout } = await doctor(server.url)
    assert.equal(code, 0, stdout)
    assert.match(stdout, /no tables yet; this role may make them/)
    assert.deepEqual(await server.sql(`select 1 from pg_class where relname like 'holdfast%'`), [])
  })

  it('mysql: no table, and says that they would be made', async () => {
    await using server = await startMysql()
    const { code, stdout } = await doctor(server.url)
    assert.equal(code, 0, stdout)
    assert.match(stdout, /no tables yet; this user may make them/)
    assert.deepEqual(
      await server.query(`select 1 from information_schema.tables where table_name like 'holdfast%'`),
      [],
    )
  })

  it('etcd: no key and no lease', async () => {
    await using server = await startEtcd()
    assert.equal((await doctor(`etcd://${server.host}:${server.port}`)).code, 0)
    const all = { key: 'AA==', range_end: 'AA==' }
    assert.equal((await server.ask('/v3/kv/range', all))['kvs'], undefined)
    assert.equal((await server.ask('/v3/lease/leases', {}))['leases'], undefined)
  })

  it('zookeeper: no node', async () => {
    await using server = await startZookeeper()
    const nodes = async () => /Node count: (\d+)/.exec(await server.ask('srvr'))?.[1]
    const before = await nodes()
    assert.ok(Number(before) > 0)
    assert.equal((await doctor(`zookeeper://${server.address}`)).code, 0)
    assert.equal(await nodes(), before)
  })

  it('consul: no key and no session', async () => {
    await using server = await startConsul({ ttlMin: '10s' })
    await doctor(`consul://${server.host}:${server.port}`)
    assert.deepEqual(await server.ask('GET', '/v1/session/list'), [])
    assert.deepEqual(await server.ask('GET', '/v1/kv/?keys').catch(() => []), [])
  })
})

describe('doctor ends with a code', { concurrency: 2 }, () => {
  it('a problem ends with 1, and names the setting to change', async () => {
    await using server = await startRedis({
      persistence: 'aof-always',
      args: ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'],
    })
    const { code, stdout } = await doctor(server.url)
    assert.equal(code, 1)
    const [title = '', , first = '', means = '', change = ''] = stdout.split('\n')
    assert.match(title, /is not fit for locks: 1 problem$/)
    assert.match(first, /^problem {2}eviction: maxmemory-policy allkeys-lru$/)
    assert.match(means, /^ +when memory is short the server may drop a lock that is held$/)
    assert.match(change, /^ +change: maxmemory-policy noeviction/)
  })

  it('it refuses nonsense before any I/O', async () => {
    for (const [url, complaint] of [
      ['nonsense://h', /unknown scheme 'nonsense:'/],
      ['redis://h?password=abc', /unknown setting/],
      ['memory:', /use local:/],
    ] as const) {
      const { code, stderr } = await doctor(url)
      assert.equal(code, 64)
      assert.match(stderr, complaint)
      assert.doesNotMatch(stderr, /abc/)
    }
  })
})

after(leakCheck)
