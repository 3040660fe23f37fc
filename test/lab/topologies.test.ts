// The fault lab on the set-ups that no other test runs: seconds here, a minute each in the soak. And the same histories with a mistake in them.
// Runs alone because its checkers bound how long a wait may take once the faults are over.
// Second tier because every run starts servers of its own.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, describe, it, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import {
  type Acquisition,
  check,
  createHistory,
  type Event,
  type History,
  memoryRecorder,
  type Rule,
} from 'holdfast/verify'
import { printFindings } from '../../lab/faults/finding.js'
import { runLab } from '../../lab/faults/run.js'
import { watchStore } from '../../lab/faults/store-watch.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'

const drivers = new URL('../../lab/faults/drivers/', import.meta.url)
const here: Readonly<Record<string, number>> = {
  'consul-cluster': 31,
  'zookeeper-ensemble': 32,
  'etcd-grpc': 33,
  'redis-replicas': 34,
  'redis-min-replicas': 35,
  'redis-cluster-failover': 36,
  'postgres-session': 37,
  'mysql-session': 38,
  mariadb: 39,
}
/** While masters are replaced it takes longer to move a slot than there is time here. Longer runs draw it. */
const except = { 'redis-cluster-failover': ['slot'] } as Readonly<Record<string, readonly string[]>>
/** By live.test.ts, partitions.test.ts and databases.test.ts. */
const elsewhere = [
  ...[
    'memory',
    'local',
    'redis',
    'redis-sentinel',
    'redis-cluster',
    'redlock',
    'zookeeper',
    'etcd',
    'consul',
  ],
  ...['etcd-cluster', 'redis-cluster-replicas', 'postgres', 'mysql'],
]

/** Of all locks, in ms. */
const ttl = 500

/** One that held a lock alone, by what was recorded. */
function holderIn({ acquisitions }: History, spoilt: ReadonlySet<string>): Acquisition | undefined {
  return acquisitions.find(
    ({ name, mode, granted = Infinity, releasing = Infinity, until = 0, lost, forced, died }) =>
      !spoilt.has(name) &&
      mode === 'exclusive' &&
      granted < Math.min(releasing, until) &&
      [lost, forced, died].every((end) => end === undefined),
  )
}

/** Another process got the same lock at the same time, with the same token. */
function withSecond(history: History, holder: Acquisition): History {
  const second = { attempt: 'second', client: 'second', pid: -1 }
  const events = history.events.filter(({ attempt }) => attempt === holder.attempt)
  return createHistory([...history.events, ...events.map((event): Event => ({ ...event, ...second }))])
}

/** Found in a history with a second holder, beside what its writes behind a guard break. */
const sought: readonly Rule[] = ['exclusion', 'tokens']

describe('under faults there is one holder at a time, and a second one would be seen:', {
  concurrency: 3,
}, () => {
  for (const [name, seed] of Object.entries(here)) {
    it(name, async (t) => {
      const module = new URL(`${name}.js`, drivers).href
      const without = except[name] ?? []
      const result = await runLab({ name, module, seed, seconds: 4, ttl, rate: 6, except: without })
      const again = `npm run faults -- ${name} --seed ${seed} --seconds 4 --ttl ${ttl} --rate 6`
      assert.equal(printFindings(result), '', again)
      const { plan, counts, took, history, excused } = result
      t.diagnostic(`${plan.length} faults, ${counts.granted} granted, ${took.toFixed(1)} s`)
      assert.ok(plan.length >= 8, `${plan.length} faults`)
      await t.test('and a second holder would be seen', (t) => {
        // Where the driver promises nothing there may be a second holder already.
        const holder = holderIn(history, new Set(excused.map(({ violation }) => violation.name)))
        // Starved for longer than a ttl, processes may see their grants only once these have expired.
        if (holder === undefined && counts.starved > ttl)
          return t.skip(`not checked: no lock was held, and processes were starved for ${counts.starved} ms`)
        assert.ok(holder, `no lock was held in ${counts.granted} grants: ${again}`)
        const rulesFor = (of: History) =>
          check(of, { falseBusy: false, fifo: false, leaks: false }).flatMap(({ rule, parties }) =>
            sought.includes(rule) && parties.some(({ attempt }) => attempt === holder.attempt) ? [rule] : [],
          )
        assert.deepEqual(rulesFor(history), [])
        assert.deepEqual([...new Set(rulesFor(withSecond(history, holder)))].sort(), sought)
      })
    })
  }
})

test('a store that replies to nobody is noticed', async () => {
  const journal = memoryRecorder()
  await using server = await startEtcd()
  const watch = watchStore(journal, (signal) =>
    server.ask('/v3/kv/put', { key: 'YQ==', value: 'eA==' }, signal),
  )
  server.pause()
  await setTimeout(2_500)
  server.resume()
  const missing = watch.missing()
  await watch.end()
  assert.ok(missing >= 1_000, `${missing} ms`)
  const { events } = journal.history()
  assert.ok(events.length > 0 && events.every(({ kind }) => kind === 'no answer of the store'))
})

test('every driver of the lab runs in a test', () => {
  const all = readdirSync(drivers).flatMap((file) => (file.endsWith('.js') ? [file.slice(0, -3)] : []))
  assert.deepEqual([...Object.keys(here), ...elsewhere].sort(), all.sort())
})

after(leakCheck)
