// The report on the set-up of Redis: each setting that weakens locks is found on real servers, sound ones are called so, and looking
// changes nothing.
// Second tier because it starts servers with settings that weaken locks.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Cluster } from 'ioredis'
import type { Check } from '../../../src/cli/setup/check.js'
import { checkSetup } from '../../../src/cli/setup/setup.js'
import { createLocks } from '../../../src/create-locks.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { leakCheck } from '../../support/leaks.js'
import { type RedisServer, startMany, startRedis } from '../../support/servers/redis.js'
import { startCluster } from '../../support/servers/redis-cluster.js'
import { startSentinel } from '../../support/servers/redis-sentinel.js'
import { until } from '../../support/until.js'

type Told = (what: string) => Check

async function look(url: string): Promise<{ readonly told: Told; readonly doubts: readonly string[] }> {
  const checks = await checkSetup(url)
  const told: Told = (what) => {
    const check = checks.find((one) => one.what === what)
    assert.ok(check !== undefined, `nothing was said of ${what}: ${checks.map((one) => one.what)}`)
    return check
  }
  return { told, doubts: checks.filter(({ verdict }) => verdict !== 'ok').map(({ what }) => what) }
}

describe('the set-up of one Redis server', { concurrency: false }, () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis({ persistence: 'aof-always', preload: ['clock'] })
  })
  after(() => server.stop())

  it('is called sound where it is, and looking writes nothing', async () => {
    const keys = async () => [await server.cli('KEYS', '*'), await server.cli('GET', 'hf:boot')]
    const before = await keys()
    const { told, doubts } = await look(server.url)
    assert.deepEqual(doubts, [])
    assert.equal(told('persistence').means, 'a restart forgets nothing')
    assert.deepEqual(await keys(), before)
    assert.doesNotMatch(
      String(await server.cli('INFO', 'commandstats')),
      /cmdstat_(hset|zadd|publish|subscribe):/,
    )
  })

  it('tells what each way of keeping data means after a restart', async () => {
    const set = (name: string, value: string) => server.cli('CONFIG', 'SET', name, value)
    await set('no-appendfsync-on-rewrite', 'yes')
    assert.match((await look(server.url)).told('persistence').remedy ?? '', /^no-appendfsync-on-rewrite no$/)
    await set('no-appendfsync-on-rewrite', 'no')
    await set('appendfsync', 'everysec')
    const everysec = await look(server.url)
    assert.deepEqual(everysec.doubts, ['persistence'])
    assert.match(everysec.told('persistence').found, /^appendonly yes, appendfsync everysec$/)
    assert.equal(everysec.told('persistence').means, 'safe; free locks are refused for 30s after a restart')
    assert.match(
      (await look(`${server.url}?maxTtl=10000`)).told('persistence').means ?? '',
      /refused for 10s/,
    )
    const off = await look(`${server.url}?quarantine=off`)
    assert.equal(off.told('quarantine').verdict, 'bad')
    assert.match(off.told('quarantine').means ?? '', /a second process may hold one/)
    await set('appendonly', 'no')
    assert.match((await look(server.url)).told('persistence').found, /^appendonly no, no snapshots/)
    await set('appendonly', 'yes')
    await set('appendfsync', 'always')
  })

  it('finds eviction, a clock that is far off, and replicas that are asked for and not there', async () => {
    const set = (name: string, value: string) => server.cli('CONFIG', 'SET', name, value)
    await set('maxmemory-policy', 'allkeys-lru')
    assert.equal((await look(server.url)).told('eviction').verdict, 'weak')
    await set('maxmemory', '100mb')
    const evicting = (await look(server.url)).told('eviction')
    assert.equal(evicting.verdict, 'bad')
    assert.match(evicting.remedy ?? '', /^maxmemory-policy noeviction/)
    await set('maxmemory', '0')
    await set('maxmemory-policy', 'noeviction')
    server.clockJump(600_000)
    assert.equal((await look(server.url)).told('clock').verdict, 'weak')
    server.clockJump(-600_000)
    const short = (await look(`${server.url}?replicas=2`)).told('replicas')
    assert.equal(short.verdict, 'bad')
    assert.match(short.means ?? '', /no lock can be taken/)
  })

  it('finds what the account may not do', async () => {
    const account = (name: string, ...rules: string[]) =>
      server.cli('ACL', 'SETUSER', name, 'on', '>pw', '~hf:*', '&hf:*', ...rules)
    const as = (name: string) => look(`redis://${name}:pw@127.0.0.1:${server.port}`)
    await account('all', '+@all')
    assert.deepEqual((await as('all')).doubts, [])
    await account('reader', '+@all', '-@write', '-subscribe')
    const reader = (await as('reader')).told('rights')
    assert.equal(reader.verdict, 'bad')
    assert.match(reader.found, /may not set, .*subscribe/)
    await account('deaf', '+@all', '-subscribe')
    assert.equal((await as('deaf')).told('rights').verdict, 'weak')
    await account('elsewhere', '+@all', 'resetkeys', '~other:*')
    assert.equal((await as('elsewhere')).told('rights').verdict, 'bad')
    await account('blind', '+@all', '-info', '-config')
    const blind = await as('blind')
    assert.equal(blind.told('INFO').verdict, 'bad')
    assert.match(blind.told('INFO').means ?? '', /^no lock can be taken/)
    await account('still', '+@all', '-config')
    assert.match((await as('still')).told('persistence').found, /this account may not read appendfsync/)
    await account('dumb', '+@all', '-@scripting')
    assert.match((await as('dumb')).told('rights').found, /may not run scripts/)
    await assert.rejects(look(`redis://all:wrong@127.0.0.1:${server.port}`), /WRONGPASS/)
  })
})

describe('the set-up of other forms of Redis', () => {
  it('a server that has just started refuses free locks for a while, unless it is marked as new', async () => {
    await using server = await startRedis({ persistence: 'aof-always', isNew: false })
    const { told, doubts } = await look(server.url)
    assert.deepEqual(doubts, ['quarantine'])
    assert.match(told('quarantine').means ?? '', /^safe; free locks are refused for \d+s more$/)
    assert.match(told('quarantine').remedy ?? '', /redis-cli SET hf:boot new$/)
    assert.equal(
      (await look(`${server.url}?prefix=my:`)).told('quarantine').remedy?.includes('my:boot'),
      true,
    )
    await server.cli('SET', 'hf:boot', 'new')
    assert.deepEqual((await look(server.url)).doubts, [])
  })

  it('Sentinels: sound with replicas that are waited for, doubtful without', async () => {
    await using setup = await startSentinel({ persistence: 'aof-always' })
    await setup.master().cli('CONFIG', 'SET', 'min-replicas-to-write', 1)
    const sound = await look(`${setup.url}?replicas=1`)
    assert.deepEqual(sound.doubts, [])
    assert.equal(sound.told('Sentinels').found, '3 Sentinels watch the master')
    await setup.master().cli('CONFIG', 'SET', 'min-replicas-to-write', 0)
    const weaker = await look(setup.url)
    assert.deepEqual(weaker.doubts, ['replicas', 'old masters'])
    assert.equal(weaker.told('old masters').remedy, 'min-replicas-to-write 1')
    const [first, ...others] = setup.sentinels
    await first?.cli('SENTINEL', 'SET', setup.name, 'down-after-milliseconds', 200)
    const alone = await look(`redis+sentinel://127.0.0.1:${first?.port}/${setup.name}`)
    assert.deepEqual(alone.doubts, ['replicas', 'old masters', 'addresses', 'fail-over'])
    for (const other of others) await other.kill9()
    // The Sentinel that is left counts the others until it has missed them for a while.
    await until(async () => (await look(setup.url)).told('quorum').verdict === 'weak', {
      within: 60_000,
      every: 500,
    })
    const replica = setup.replicas()[0]
    assert.equal((await look(replica?.url ?? '')).told('replicas').verdict, 'bad')
  })

  it('a Cluster: each master is examined, and common findings are reported once', async () => {
    await using setup = await startCluster({ persistence: 'aof-always' })
    const [odd] = setup.masters
    await odd?.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru', 'maxmemory', '100mb')
    const { told, doubts } = await look(setup.url)
    assert.match(told('slots').found, /cluster_state ok, 16384 of 16384 slots at \d masters/)
    assert.equal(told(`eviction of 127.0.0.1:${odd?.port}`).verdict, 'bad')
    assert.equal(told('version').verdict, 'ok')
    assert.ok(!doubts.includes('rights'))
    const single = await look(`redis://127.0.0.1:${odd?.port}`)
    assert.match(single.told('cluster').remedy ?? '', /redis\+cluster:/)
  })

  it('a Cluster: whether a node grants free locks now, and for how long not, is what the driver does', async (t) => {
    await using setup = await startCluster({ persistence: 'aof-always', replicas: 1, nodeTimeout: 60_000 })
    const url = `${setup.url}?maxTtl=8000`
    const quarantine = async (query = '') => {
      const checks = await checkSetup(url + query)
      return checks.filter(({ what }) => what.startsWith('quarantine'))
    }
    const young = (await checkSetup(`${setup.url}?maxTtl=600000`)).filter(({ what }) =>
      what.startsWith('quarantine'),
    )
    for (const check of young)
      assert.match(`${check.verdict} ${check.means}`, /^weak safe; .* refused for .+ more$/)
    await until(async () => (await quarantine()).every(({ verdict }) => verdict === 'ok'), { within: 40_000 })
    const { told } = await look(url)
    assert.equal(told('quarantine').found, 'over: free locks are granted at once')
    assert.equal(
      told('persistence').means,
      'a restart forgets nothing; free locks are refused for 8s after it all the same',
    )
    assert.match(told('replicas').means ?? '', /^safe; after a fail-over free locks are refused/)
    const client = new Cluster([...setup.addresses])
    const locks = createLocks(redis({ client, maxTtl: 8_000 }), { ttl: 8_000 })
    t.after(() => locks.close().then(() => client.disconnect()))
    await locks.mutex('x').run(() => undefined)
    const owner = await setup.findOwner(await setup.keySlot('hf:{x}'))
    await owner.cli('FLUSHALL')
    const flushed = `quarantine of 127.0.0.1:${owner.port}`
    assert.match(
      (await look(url)).told(flushed).means ?? '',
      /from the first request on free locks are refused for 9s$/,
    )
    assert.equal(await locks.mutex('x').tryAcquire(), undefined)
    const found = (await look(url)).told(flushed)
    assert.match(
      `${found.found}: ${found.means}`,
      /^data were deleted.*: safe; free locks are refused for \S+ more$/,
    )
    await locks.mutex('x').run(() => undefined, { wait: 40_000 })
    assert.equal((await look(url)).told('quarantine').verdict, 'ok')
    const off = await look(`${setup.url}?quarantine=detected`)
    assert.match(off.told('replicas').means ?? '', /two processes can hold it/)
    for (const node of setup.nodes)
      await node.cli('CONFIG', 'SET', 'repl-backlog-ttl', 1, 'appendfsync', 'everysec')
    assert.equal((await look(url)).told('promotions').verdict, 'bad')
    const detected = (await look(`${setup.url}?quarantine=detected`)).told('quarantine')
    assert.match(
      `${detected.found}: ${detected.means}`,
      /^quarantine=detected.*: .*a second process may hold one at once/,
    )
  })

  it('Redlock: a majority must answer, and all keep what they have voted', async () => {
    await using group = await startMany(3, { persistence: 'aof-always' })
    const url = `redlock://${group.servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`
    const sound = await look(url)
    assert.deepEqual(sound.doubts, [])
    assert.equal(sound.told('servers').found, '3 servers vote, 1 of them may be down')
    await group.servers[0]?.kill9()
    const partly = (await look(url)).told('servers')
    assert.equal(partly.verdict, 'weak')
    assert.equal(partly.means, 'locks work; no other may be down')
    await group.servers[1]?.kill9()
    const lost = (await look(url)).told('servers')
    assert.equal(lost.verdict, 'bad')
    assert.match(lost.found, /^1 of 3 answer, 2 are needed/)
  })
})

after(leakCheck)
