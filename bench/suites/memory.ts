/** The core without a store: the cost of the library itself. */
import { createLocks, type Lease, type Locks } from 'holdfast'
import type { Driver, Env, Wait } from 'holdfast/driver'
import { memory } from 'holdfast/memory'
import { atLeast, type Figure } from '../figure.js'
import { BareMap, BareQueue } from '../floors/in-process.js'
import { heapPer } from '../heap.js'
import { ratio, takeTurns } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { handOvers } from '../waiters.js'

const suite = 'memory'

export async function measureMemory(scale: Scale): Promise<readonly Figure[]> {
  const made: { readonly driver: Driver; readonly env: Env }[] = []
  await using locks = createLocks((env) => {
    const driver = memory()(env)
    made.push({ driver, env })
    return driver
  })
  return [
    ...(await uncontended(locks, scale)),
    ...(await Promise.all(made.map(({ driver, env }) => driverAlone(driver, env, scale)))),
    ...(await waiting(locks, scale)),
    await heap(locks, scale),
    await check(locks, scale),
  ]
}

async function uncontended(locks: Locks, { effort }: Scale): Promise<Figure[]> {
  const map = new BareMap()
  const one = locks.mutex('bench:one')
  const what = 'acquire + release, uncontended'
  const rates = await takeTurns(
    {
      ours: async (n) => {
        for (let i = 0; i < n; i++) {
          const lease = await one.acquire()
          await lease.release()
        }
      },
      names: async (n) => {
        for (let i = 0; i < n; i++) {
          const lease = await locks.mutex(`bench:${i % 1000}`).acquire()
          await lease.release()
        }
      },
      map: async (n) => {
        for (let i = 0; i < n; i++) {
          map.take('bench:one')
          map.drop('bench:one')
        }
      },
      awaited: async (n) => {
        for (let i = 0; i < n; i++) {
          await map.takeLater('bench:one')
          await map.dropLater('bench:one')
        }
      },
    },
    effort,
  )
  const ours = spread(rates.ours)
  const against = (floor: 'map' | 'awaited', of: 'ours' | 'names') => ({
    value: spread(rates[floor]),
    ratio: ratio(rates[of], rates[floor]),
  })
  const unit = 'per second'
  return [
    {
      suite,
      what,
      unit,
      ours,
      floor: { what: 'bare Map', ...against('map', 'ours') },
      aim: atLeast(ours.median, 500_000, '/s'),
    },
    {
      suite,
      what,
      unit,
      ours,
      floor: { what: 'bare Map, both calls awaited', ...against('awaited', 'ours') },
    },
    {
      suite,
      what: 'the same over 1,000 names, a new lock object each time',
      unit,
      ours: spread(rates.names),
      floor: { what: 'bare Map, both calls awaited', ...against('awaited', 'names') },
    },
  ]
}

/** The driver's state machine and its promises, without deadlines, watchdog, queue and lease. */
async function driverAlone(driver: Driver, env: Env, { effort }: Scale): Promise<Figure> {
  const map = new BareMap()
  const wait: Wait = { signal: new AbortController().signal, ended: false, remaining: () => 0 }
  const claim = { name: 'bench:driver', mode: { kind: 'exclusive' }, fair: false, ttl: 30_000 } as const
  const rates = await takeTurns(
    {
      ours: async (n) => {
        for (let i = 0; i < n; i++) {
          const grant = await driver.acquire({ ...claim, attempt: env.id() }, wait)
          await grant?.release()
        }
      },
      awaited: async (n) => {
        for (let i = 0; i < n; i++) {
          await map.takeLater('bench:one')
          await map.dropLater('bench:one')
        }
      },
    },
    effort,
  )
  const ours = spread(rates.ours)
  return {
    suite,
    what: 'the driver alone: acquire + release, uncontended',
    unit: 'per second',
    ours,
    floor: {
      what: 'bare Map, both calls awaited',
      value: spread(rates.awaited),
      ratio: ratio(rates.ours, rates.awaited),
    },
    aim: atLeast(ours.median, 500_000, '/s'),
  }
}

async function waiting(locks: Locks, { effort, waiters }: Scale): Promise<Figure[]> {
  const lock = locks.mutex('bench:line')
  const queue = new BareQueue()
  const { rates, counts } = await handOvers(lock, queue, waiters, effort)
  const ours = spread(rates.ours)
  return [
    {
      suite,
      what: `hand-overs, ${waiters.toLocaleString('en')} waiters on one name`,
      unit: 'per second',
      ours,
      floor: {
        what: 'bare queue of promises',
        value: spread(rates.floor),
        ratio: ratio(rates.ours, rates.floor),
      },
      counts,
      aim: atLeast(ours.median, 200_000, '/s'),
    },
  ]
}

async function heap(locks: Locks, { leases, effort }: Scale): Promise<Figure> {
  let held: Lease[] = []
  const perLease = await heapPer(leases, Math.min(effort.rounds, 5), {
    fill: async () => {
      for (let i = 0; i < leases; i++) held.push(await locks.mutex(`bench:held:${i}`).acquire())
    },
    empty: async () => {
      for (const lease of held) await lease.release()
      held = []
    },
  })
  return {
    suite,
    what: `heap of a held lease, ${leases.toLocaleString('en')} held`,
    unit: 'bytes',
    ours: perLease,
    note: 'used heap after a full collection, lease and name included; the table of this driver is in the same heap.',
  }
}

async function check(locks: Locks, { effort }: Scale): Promise<Figure> {
  await using lease = await locks.mutex('bench:checked').acquire()
  const rates = await takeTurns(
    {
      ours: async (n) => {
        for (let i = 0; i < n; i++) lease.assertHeld()
      },
      clock: async (n) => {
        for (let i = 0; i < n; i++) sink += performance.now()
      },
    },
    effort,
  )
  const nanoseconds = (rates: readonly number[]) => rates.map((rate) => 1e9 / rate)
  const [ours, clock] = [nanoseconds(rates.ours), nanoseconds(rates.clock)]
  return {
    suite,
    what: 'lease.assertHeld()',
    unit: 'ns',
    ours: spread(ours),
    floor: { what: 'performance.now()', value: spread(clock), ratio: ratio(ours, clock) },
  }
}

/** Keeps the compiler from eliminating the floor's work. */
export let sink = 0
