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
  printViolation,
  type Rule,
} from 'holdfast/verify'
import { runLab } from '../../lab/faults/run.js'
import { watchStore } from '../../lab/faults/starvation.js'
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

interface Handover {
  readonly first: Acquisition
  readonly second: Acquisition
}

/** Another process got a lock after the first had released it, and before the lease of the first would have run out. */
function handovers({ acquisitions }: History): Handover[] {
  const holds = acquisitions
    .filter((one) => one.mode === 'exclusive' && one.granted !== undefined && one.forced === undefined)
    .sort((a, b) => a.granted! - b.granted!)
  const last = new Map<string, Acquisition>()
  return holds.flatMap((second) => {
    const first = last.get(second.name)
    last.set(second.name, second)
    if (first === undefined || first.pid === second.pid) return []
    const { releasing, until = 0, lost, died } = first
    const at = second.granted!
    const left = releasing !== undefined && releasing < at && at < until
    const held = (second.until ?? 0) > at && (second.releasing ?? until) > at
    return left && held && lost === undefined && died === undefined ? [{ first, second }] : []
  })
}

/** A bug of a lock, as it would be recorded. */
const mistakes: readonly (readonly [Rule, (handover: Handover, event: Event) => Event | undefined])[] = [
  [
    'exclusion',
    ({ first }, event) => (event.attempt === first.attempt && event.op === 'release' ? undefined : event),
  ],
  [
    'tokens',
    ({ first, second }, event) =>
      event.attempt === second.attempt && event.token !== undefined
        ? { ...event, token: first.token! }
        : event,
  ],
]

function caught(rule: Rule, handover: Handover, made: History): boolean {
  return check(made, { falseBusy: false, leaks: false }).some(
    (one) => one.rule === rule && one.name === handover.second.name,
  )
}

describe('under faults nobody holds beside another, and a mistake would be seen:', { concurrency: 3 }, () => {
  for (const [name, seed] of Object.entries(here)) {
    it(name, async (t) => {
      const module = new URL(`${name}.js`, drivers).href
      const result = await runLab({ name, module, seed, seconds: 4, ttl: 500, rate: 6 })
      const told = [...result.violations.map(printViolation), ...result.complaints]
      const again = `npm run faults -- ${name} --seed ${seed} --seconds 4 --ttl 500 --rate 6`
      assert.equal(told.slice(0, 3).join('\n\n'), '', again)
      const { plan, counts, took, history, excused } = result
      t.diagnostic(`${plan.length} faults, ${counts.granted} granted, ${took.toFixed(1)} s`)
      assert.ok(plan.length >= 8, `${plan.length} faults`)
      // Where the driver promises nothing there may be a second holder already.
      const spoilt = new Set(excused.map(({ violation }) => violation.name))
      const handover = handovers(history).find(({ second }) => !spoilt.has(second.name))
      assert.ok(handover, `no lock went from one process to another in ${counts.granted} grants: ${again}`)
      for (const [rule, mistake] of mistakes) {
        const made = history.events.flatMap((event) => mistake(handover, event) ?? [])
        assert.ok(caught(rule, handover, createHistory(made)), `${rule}: not seen`)
        assert.ok(!caught(rule, handover, history), `${rule}: seen without the mistake`)
      }
    })
  }
})

test('a store that answers nobody is noticed', async () => {
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
