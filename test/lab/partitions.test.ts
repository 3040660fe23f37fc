// Members cut off from the others, with their clients or alone: that the partition is real, that there are no two holders, and that a broken lock has two.
// Second tier because every run starts clusters of its own.
import assert from 'node:assert/strict'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { after, describe, it, test } from 'node:test'
import { inspect } from 'node:util'
import { createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { etcd } from 'holdfast/etcd'
import { printFindings } from '../../lab/faults/finding.js'
import { withIt } from '../../lab/faults/partitions.js'
import { runLab } from '../../lab/faults/run.js'
import type { LabDriver } from '../../lab/faults/store.js'
import { busyFactor } from '../../src/conformance/busy.js'
import { leakCheck } from '../support/leaks.js'
import { startConsulCluster } from '../support/servers/consul.js'
import { startEtcdCluster } from '../support/servers/etcd.js'
import { type MemberCables, memberCables } from '../support/servers/member-cables.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { type SentinelSetup, startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const faultsOf = (name: string) => new URL(`../../lab/faults/drivers/${name}.js`, import.meta.url).href
const labAt = (url: string): Promise<{ readonly lab: LabDriver }> => import(url)
const canaryOf = (name: string) => new URL(`../../lab/canaries/apart.js?${name}`, import.meta.url).href

/** Until a cluster of which a member is cut off has another leader that serves a waiter, in ms: longer on a busy machine, which holds more elections. */
const longest = () => 60_000 * busyFactor()

/** For how long a server is silent before Sentinels take it for down: with this, a machine that stalls causes no fail-over. In ms. */
const never = 3_600_000

const setDownAfter = ({ sentinels, name }: SentinelSetup, ms: number) =>
  Promise.all(sentinels.map((one) => one.cli('SENTINEL', 'SET', name, 'down-after-milliseconds', ms)))

/** Every Sentinel knows it as the master, takes it for up, and is replacing nobody. */
async function isFollowed({ sentinels, name }: SentinelSetup, master: RedisServer): Promise<boolean> {
  const told = await Promise.all(sentinels.map((one) => one.cli('SENTINEL', 'MASTER', name)))
  return told.every((fields) => {
    const rows = fields as readonly string[]
    const value = (key: string) => rows[rows.indexOf(key) + 1]
    return value('port') === `${master.port}` && value('flags') === 'master'
  })
}

describe('cut off from the others,', { concurrency: 2 }, () => {
  it('a leader of etcd commits nothing, the others do, and it follows them once it is back', async () => {
    const cables = memberCables()
    await using cluster = await startEtcdCluster(3, { version: '3.4', cables })
    const leader = await cluster.leader()
    const others = cluster.servers.filter((one) => one !== leader)
    const put = (server: typeof leader, key: string) =>
      server.ask('/v3/kv/put', { key, value: 'eA==' }, AbortSignal.timeout(5_000))
    const heal = cables.isolate(cluster.servers.indexOf(leader), leader.pid)
    const refused = assert.rejects(put(leader, 'Yg=='))
    const took = () => put(others[0]!, 'Yw==').then(Boolean, () => false)
    await until(took, { within: 20_000, every: 50, what: 'the others to take a write' })
    await refused
    heal()
    const again = () => put(leader, 'ZA==').then(Boolean, () => false)
    await until(again, { within: 20_000, every: 50, what: 'the old leader to take a write' })
    const count = async (key: string) => Number((await leader.ask('/v3/kv/range', { key }))['count'] ?? 0)
    assert.deepEqual([await count('Yg=='), await count('Yw==')], [0, 1])
    await cluster.stop()
    await cables.stop()
  })

  it('a leader of Consul commits nothing, the others do, and it follows them once it is back', async () => {
    const cables = memberCables()
    await using cluster = await startConsulCluster(3, { cables })
    const leader = await cluster.leader()
    const others = cluster.servers.filter((one) => one !== leader)
    const put = (server: typeof leader, key: string) => server.ask('PUT', `/v1/kv/${key}`, 'x')
    const heal = cables.isolate(cluster.servers.indexOf(leader), leader.pid)
    const refused = assert.rejects(put(leader, 'a'))
    const took = () => put(others[0]!, 'b').catch(() => false)
    await until(took, { within: 30_000, every: 50, what: 'the others to take a write' })
    await refused
    heal()
    const again = () => put(leader, 'c').catch(() => false)
    await until(again, { within: 30_000, every: 50, what: 'the old leader to take a write' })
    const isThere = async (key: string) => (await leader.ask('GET', `/v1/kv/${key}`)) !== undefined
    assert.deepEqual([await isThere('a'), await isThere('b')], [false, true])
    await cluster.stop()
    await cables.stop()
  })

  it('an old Redis master keeps serving beside the one that the Sentinels promote, and follows it once it is back', async () => {
    const cables = memberCables()
    const setup = await startSentinel({ downAfter: never, cables })
    try {
      const old = setup.master()
      const other = setup.nodes.find((one) => one !== old)!
      const heal = cables.isolate(setup.nodes.indexOf(old), old.pid)
      await setDownAfter(setup, 500)
      const promoted = async () => (await other.cli('SET', 'x', 1).catch(() => '')) === 'OK'
      await until(promoted, { within: 20_000, what: 'the replica to be promoted' })
      assert.equal(await old.cli('SET', 'x', 2), 'OK', 'the old one still takes itself for the master')
      await until(() => isFollowed(setup, other), { what: 'every Sentinel to watch the new master' })
      await setDownAfter(setup, never)
      await until(() => isFollowed(setup, other), { what: 'no Sentinel to take it for down' })
      heal()
      assert.equal(await setup.settled(), other)
      assert.equal(await old.cli('GET', 'x'), '1')
    } finally {
      await setup.stop()
      await cables.stop()
    }
  })
})

test('some workers are with it and some are not, whatever is drawn', () => {
  const sides = new Set<string>()
  for (let draw = 0; draw < 1_000; draw++) {
    const isWith = withIt(4, (draw * 0.618_033_988_75) % 1)
    const side = [0, 1, 2, 3].map((n) => (isWith(n) ? 'x' : '-')).join('')
    assert.match(side, /x/)
    assert.match(side, /-/)
    sides.add(side)
  }
  assert.equal(sides.size, 12, 'each number of them, beginning with each')
  assert.ok(withIt(1, 0.5)(0))
})

describe('with members cut off there is one holder at a time, and everybody is served:', {
  concurrency: 2,
}, () => {
  for (const { name, seed, only } of [
    { name: 'etcd-cluster', seed: 75, only: ['cut off with its clients'] },
    { name: 'redis-cluster-replicas', seed: 24, only: ['cut off', 'pause worker'] },
  ]) {
    it(name, async (t) => {
      const result = await runLab({
        name,
        module: faultsOf(name),
        seed,
        seconds: 8,
        ttl: 1_000,
        rate: 6,
        only,
      })
      const again = `npm run faults -- ${name} --seed ${seed} --seconds 8 --rate 6 --only '${only}'`
      assert.equal(printFindings(result), '', again)
      assert.ok(result.plan.some(({ kind }) => kind.includes('cut off with its clients')))
      t.diagnostic(
        `${result.plan.length} faults, ${result.counts.granted} granted, ${result.took.toFixed(1)} s`,
      )
    })
  }
})

describe('a holder on the side that is cut off', { concurrency: 2 }, () => {
  for (const { name, start, open } of [
    {
      name: 'etcd-cluster',
      start: (cables: MemberCables) => startEtcdCluster(3, { version: '3.4', cables }),
      open: (urls: string[]) => etcd({ endpoints: urls, lease: 'lock' }),
    },
    {
      name: 'consul-cluster',
      start: (cables: MemberCables) => startConsulCluster(3, { cables }),
      open: (url: string[]) => consul({ url, session: 'lock', minTtl: 1_000 }),
    },
  ]) {
    for (const [what, url, isHeld] of [
      ['knows that it is none', faultsOf(name), false],
      ['does not, if a renewal counts that the store could not carry out', canaryOf(name), true],
    ] as const) {
      it(`${what} (${name})`, async () => {
        const [{ lab: tried }, { lab: sound }] = await Promise.all([labAt(url), labAt(faultsOf(name))])
        const cables = memberCables()
        await using cluster = await start(cables)
        const { servers } = cluster
        const leader = await cluster.leader()
        const others = servers.filter(({ port }) => port !== leader.port)
        const a = await tried.client([leader.port])
        const [behind, beyond] = [createLocks(a.driver), createLocks(open(others.map(({ url }) => url)))]
        const ttl = sound.leastTtl ?? 1_000
        const lease = await behind.mutex('x').acquire({ ttl, wait: longest() })
        const turns = monitorEventLoopDelay({ resolution: 20 })
        turns.enable()
        let lost: unknown = 'not lost'
        lease.signal.addEventListener('abort', () => {
          lost = lease.signal.reason
        })
        const heal = cables.isolate(
          servers.findIndex(({ port }) => port === leader.port),
          leader.pid,
        )
        const next = await beyond.mutex('x').acquire({ wait: longest() })
        assert.ok(next.token > lease.token)
        turns.disable()
        // Who cannot even send a renewal in time loses the lease, however it counts renewals.
        const stalled = turns.max / 1e6 > ttl / 2
        if (!isHeld || !stalled) assert.equal(lease.isHeld, isHeld, inspect(lost))
        heal()
        await Promise.all([behind.close(), beyond.close()])
        await a.close?.()
        await cluster.stop()
        await cables.stop()
      })
    }
  }
})

after(leakCheck)
