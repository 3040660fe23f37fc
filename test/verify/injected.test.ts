// One bug for every rule, injected into a driver or into the guarded resource: recorded like any run, and caught by the rule it breaks.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createLocks, type Lease, type Locks } from 'holdfast'
import type { Driver, DriverFactory, Env } from 'holdfast/driver'
import { memory } from 'holdfast/memory'
import {
  type CheckOptions,
  check,
  getAttempt,
  type MemoryRecorder,
  memoryRecorder,
  type Rule,
  recordLocks,
} from 'holdfast/verify'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { alone, changed, forgetting, newestFirst } from './broken.js'

interface Run {
  /** Two processes' worth of locks over one store. */
  readonly a: Locks
  readonly b: Locks
  readonly journal: MemoryRecorder
  /** What the counter behind the guard holds now. */
  write(lease: Lease, value: number): void
  read(lease: Lease, value: number): void
  /** The store's own count of commands. */
  commands(count: number): void
}

interface Bug {
  /** Breaks the driver; absent: what is guarded is broken, and `run` is told. */
  readonly driver?: (inner: Driver) => Partial<Driver>
  readonly run: (run: Run, broken: boolean) => Promise<void>
  readonly check?: CheckOptions
}

/** The second asks while the first holds, and waits until that has left. */
async function meet(first: Promise<Lease>, second: () => Promise<Lease>, broken: boolean): Promise<void> {
  const lease = await first
  const waiting = second()
  if (broken) await waiting
  await lease.release()
  await (await waiting).release()
}

const bugs: Readonly<Record<Rule, Bug>> = {
  exclusion: {
    driver: alone,
    run: ({ a, b }, broken) => meet(a.mutex('x').acquire(), () => b.mutex('x').acquire(), broken),
  },
  'read-write': {
    driver: alone,
    run: ({ a, b }, broken) =>
      meet(a.readWrite('x').read.acquire(), () => b.readWrite('x').write.acquire(), broken),
  },
  permits: {
    driver: alone,
    run: ({ a, b }, broken) => {
      const of = (locks: Locks) => locks.semaphore('x', { permits: 3 }).acquire({ permits: 2 })
      return meet(of(a), () => of(b), broken)
    },
  },
  tokens: {
    driver: (inner) => changed(inner, () => ({ token: 7 })),
    run: async ({ a, b }) => {
      for (const locks of [a, b]) await (await locks.mutex('x').acquire()).release()
    },
  },
  guard: {
    run: async ({ a, b, write }, broken) => {
      const older = await a.mutex('x').acquire()
      await older.release()
      const newer = await b.mutex('x').acquire()
      write(newer, 1)
      // A guard that lets the token of somebody before pass.
      if (broken) write(older, 2)
      await newer.release()
    },
  },
  witness: {
    run: async ({ a, b, read, write }, broken) => {
      const first = await a.mutex('x').acquire()
      read(first, 0)
      write(first, 1)
      await first.release()
      const second = await b.mutex('x').acquire()
      // Read before the first had written: its update is lost.
      read(second, broken ? 0 : 1)
      write(second, broken ? 1 : 2)
      await second.release()
    },
  },
  'false-busy': {
    driver: ({ acquire }) => ({
      acquire: async (claim, wait) => (wait.remaining() === 0 ? undefined : acquire(claim, wait)),
    }),
    run: async ({ a }) => {
      await (await a.mutex('x').tryAcquire())?.release()
    },
    check: { falseBusy: { lag: 0 } },
  },
  fifo: {
    driver: newestFirst,
    run: async ({ a, b, journal }) => {
      const holder = await a.mutex('x').acquire({ fair: true })
      const served: Promise<unknown>[] = []
      const stands = async (locks: Locks) => {
        const before = queued(journal)
        served.push(locks.mutex('x').run(() => undefined, { fair: true }))
        await until(() => queued(journal) > before)
      }
      await stands(b)
      await stands(a)
      await holder.release()
      await Promise.all(served)
    },
  },
  liveness: {
    driver: ({ acquire }) => ({ acquire: forgetting(acquire) }),
    run: async ({ a, b }, broken) => {
      const lease = await a.mutex('x').acquire()
      const waiting = b.mutex('x').run(() => undefined)
      waiting.catch(() => undefined)
      await lease.release()
      if (!broken) await waiting
    },
    check: { liveness: { within: 60_000 } },
  },
  leaks: {
    driver: (inner) => changed(inner, () => ({ release: async () => 'released' as const })),
    run: async ({ a, journal }) => {
      await (await a.mutex('x').acquire()).release()
      const { holders, waiters } = await a.inspect('x')
      const left = { holders: holders.length, waiters: waiters.length }
      journal.write({ op: 'standing', phase: 'info', name: 'x', ...left })
    },
  },
  commands: {
    run: async ({ a, commands }, broken) => {
      commands(0)
      for (let i = 0; i < 3; i++) await (await a.mutex('x').acquire()).release()
      // Two for each are enough: this one has asked a third time.
      commands(broken ? 7 : 6)
    },
    check: { commands: { max: 2 } },
  },
}

const queued = (journal: MemoryRecorder) =>
  journal.history().acquisitions.filter((one) => one.queued !== undefined).length

async function violationsOf({ driver, run, check: options = {} }: Bug, broken: boolean): Promise<Rule[]> {
  const store = memory()
  let breaking: Partial<Driver> | undefined
  const factory = ((env: Env) => {
    const inner = store(env)
    if (driver === undefined || !broken) return inner
    breaking ??= driver(inner)
    return { ...inner, ...breaking }
  }) as DriverFactory
  const journal = memoryRecorder()
  const plain = [createLocks(factory), createLocks(factory)] as unknown as readonly [Locks, Locks]
  const [a, b] = [recordLocks(plain[0], journal), recordLocks(plain[1], journal)]
  const access = (op: 'read' | 'write') => (lease: Lease, value: number) => {
    const event = { op, name: lease.name, attempt: getAttempt(lease), token: lease.token } as const
    journal.write({ ...event, phase: 'invoke' })
    journal.write({ ...event, phase: 'ok', value, ...(op === 'write' && { seq: value }) })
  }
  const commands = (count: number) => journal.write({ op: 'commands', phase: 'info', count })
  await run({ a, b, journal, read: access('read'), write: access('write'), commands }, broken)
  const found = check(journal.history(), options).map(({ rule }) => rule)
  await a.close()
  await b.close()
  return found
}

describe('an injected bug is caught by the rule it breaks, and nothing is found without it:', () => {
  for (const [rule, bug] of Object.entries(bugs)) {
    it(rule, async () => {
      assert.deepEqual(await violationsOf(bug, false), [])
      const found = await violationsOf(bug, true)
      assert.ok(found.includes(rule as Rule), `found ${found.join(', ') || 'nothing'}`)
    })
  }
})

after(leakCheck)
