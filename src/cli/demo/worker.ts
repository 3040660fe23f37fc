/**
 * One worker process of the demo: processes its orders one by one, each as read, check, work, write. The code is the same with and without the lock.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { createLocks, type Lease } from 'holdfast'
import { type Recorder, recorder, recordLocks } from 'holdfast/verify'
import { target } from '../connect.js'
import type { Order } from './input.js'
import { readLedger, writeLedger } from './ledger.js'

export interface Task {
  readonly label: string
  readonly ledger: string
  readonly history: string
  readonly orders: readonly Order[]
  /** Undefined: without a lock. */
  readonly lock: { readonly on: string; readonly insecure: boolean; readonly name: string } | undefined
  /** The name under which sections without a lock are recorded. */
  readonly name: string
}

export interface Tally {
  /** Names of the orders this worker booked. */
  readonly applied: readonly string[]
  /** Orders it found already booked. */
  readonly skipped: number
  /** Redemptions refused for lack of points. */
  readonly refused: number
}

export type FromWorker = { readonly type: 'ready' } | { readonly type: 'done'; readonly tally: Tally }

/** Duration of the work between read and write, in ms: a call to a payment service, a template, a slow disk. */
const work = { least: 2, spread: 6 }
/** Pause between two orders, in ms. */
const pauseBetweenOrders = 2

/** Runs `fn` exclusively, or pretends to. */
type Section = (fn: (lease: Lease | undefined, attempt: string) => Promise<void>) => Promise<void>

async function main(): Promise<void> {
  const task = await message<Task>()
  const notes = recorder(task.history, { label: task.label })
  const { section, close } = await (task.lock === undefined
    ? without(task.name, notes)
    : withLock(task.lock, notes))
  send({ type: 'ready' })
  await message<'go'>()
  const tally = { applied: [] as string[], skipped: 0, refused: 0 }
  for (const order of task.orders) {
    await section(async (lease, attempt) => {
      const outcome = await book(task.ledger, order, notes, attempt, lease)
      if (outcome === 'applied') tally.applied.push(order.order)
      else tally[outcome]++
    })
    await pause(pauseBetweenOrders * Math.random())
  }
  send({ type: 'done', tally })
  // Workers exit together: with the embedded driver one of them is the broker, and a broker hand-over is not part of the demo.
  await message<'end'>()
  await close()
  notes.close()
  process.disconnect()
}

/** The job itself. */
async function book(
  file: string,
  { order, account, points }: Order,
  notes: Recorder,
  attempt: string,
  lease: Lease | undefined,
): Promise<'applied' | 'skipped' | 'refused'> {
  const about = { name: 'points.json', attempt, ...(lease !== undefined && { token: lease.token }) }
  notes.write({ op: 'read', phase: 'invoke', ...about })
  const { revision, balances, applied } = readLedger(file)
  notes.write({ op: 'read', phase: 'ok', value: revision, ...about })
  // A lock alone does not make an order count once: the second worker has to check.
  if (applied.includes(order)) return 'skipped'
  const balance = balances[account] ?? 0
  if (balance + points < 0) return 'refused'
  await pause(work.least + Math.random() * work.spread)
  lease?.assertHeld()
  notes.write({ op: 'write', phase: 'invoke', value: revision + 1, ...about })
  writeLedger(file, {
    revision: revision + 1,
    balances: { ...balances, [account]: balance + points },
    applied: [...applied, order],
  })
  notes.write({ op: 'write', phase: 'ok', value: revision + 1, ...about })
  return 'applied'
}

async function withLock(
  { on, insecure, name }: NonNullable<Task['lock']>,
  notes: Recorder,
): Promise<Sections> {
  const connection = await target(on, { insecure }).connect()
  const locks = recordLocks(createLocks(connection.driver), notes)
  // Connects, so that all workers start with an open connection.
  await locks.inspect(name)
  let accesses = 0
  return {
    section: (fn) => locks.mutex(name).run((lease) => fn(lease, `${notes.client}:access:${++accesses}`)),
    close: async () => {
      await locks.close()
      await connection.close()
    },
  }
}

/** Records its sections as a lock would, and excludes nobody. */
async function without(name: string, notes: Recorder): Promise<Sections> {
  let sections = 0
  return {
    section: async (fn) => {
      const about = { name, attempt: `${notes.client}:${++sections}` }
      notes.write({ op: 'acquire', phase: 'invoke', mode: 'exclusive', ...about })
      notes.write({ op: 'acquire', phase: 'ok', mode: 'exclusive', ...about })
      try {
        await fn(undefined, about.attempt)
      } finally {
        notes.write({ op: 'release', phase: 'invoke', ...about })
        notes.write({ op: 'release', phase: 'ok', ...about })
      }
    },
    close: async () => undefined,
  }
}

interface Sections {
  readonly section: Section
  readonly close: () => Promise<void>
}

function message<M>(): Promise<M> {
  return new Promise((resolve) => {
    process.once('message', (found) => resolve(found as M))
  })
}

function send(what: FromWorker): void {
  process.send?.(what)
}

// The parent is gone: nobody needs the result.
process.once('disconnect', () => process.exit())

await main()
