/** From five answers to a driver, its options and a guard. Pure: a table of answers tests it. */
import type { Answers } from './answers.js'
import { codeFor } from './code.js'
import { type DriverName, drivers } from './drivers.js'
import { driverOptions, formatTime, lockOptions, type Option } from './options.js'

export interface Advice {
  readonly driver: DriverName
  /** No suitable store is running: start this one first. */
  readonly toStart: boolean
  readonly why: readonly string[]
  /** Driver options: `redis({ … })`. */
  readonly options: readonly Option[]
  /** Lock options: `locks.mutex(name, { … })`. */
  readonly lock: readonly Option[]
  readonly guard: {
    readonly needed: 'no' | 'advised' | 'required'
    readonly how: string
    readonly why: string
  }
  readonly weak: readonly string[]
  /** Alternatives, and when they apply. */
  readonly instead: readonly string[]
  /** Documentation pages. */
  readonly pages: readonly string[]
  /** A program to start from. */
  readonly code: string
  /** The command that checks the set-up of the store. */
  readonly check: string
}

/**
 * The first of these that is running wins. If duplicate work is harmless, fast stores with push notification come first; otherwise those
 * that lose no lock when a server dies.
 */
const ranking: Readonly<Record<Answers['double'], readonly DriverName[]>> = {
  harmless: ['redis', 'postgres', 'etcd', 'redlock', 'zookeeper', 'consul', 'mysql'],
  costly: ['etcd', 'zookeeper', 'consul', 'postgres', 'redis', 'redlock', 'mysql'],
  never: ['etcd', 'zookeeper', 'consul', 'postgres', 'redis', 'redlock', 'mysql'],
}

/** Above this number of waiters a driver is unsuitable: its waiters poll, or each keeps a connection of an agent. */
const crowd: Partial<Record<DriverName, number>> = { mysql: 100, redlock: 20, consul: 150 }

const isCrowd = (driver: DriverName, waiters: number): boolean =>
  waiters > (crowd[driver] ?? Number.POSITIVE_INFINITY)

export function decide(answers: Answers): Advice {
  const driver = driverFor(answers)
  const toStart = driver !== 'local' && !answers.run.includes(driver)
  const options = driverOptions(driver, answers)
  const lock = lockOptions(driver, answers)
  return {
    ...{ driver, toStart, options, lock },
    why: reasons(driver, toStart, answers),
    guard: guardFor(driver, answers),
    weak: weakPoints(driver, answers),
    instead: alternatives(driver, answers),
    pages: pagesFor(driver, answers),
    code: codeFor(driver, options, lock),
    check: `holdfast doctor --on ${drivers[driver].url}`,
  }
}

function driverFor({ machines, run, double, waiters }: Answers): DriverName {
  if (machines === 'one') return 'local'
  const there = ranking[double].filter((name) => name !== 'local' && run.includes(name))
  const calm = there.find((name) => !isCrowd(name, waiters))
  return calm ?? there[0] ?? (double === 'harmless' ? 'redis' : 'etcd')
}

function reasons(
  driver: DriverName,
  toStart: boolean,
  { machines, run, double, waiters }: Answers,
): string[] {
  const why: string[] = []
  if (machines === 'one') why.push('All processes are on one machine.')
  if (toStart)
    why.push(
      `Many machines need a store that all of them reach, and none was named: ${driver} is the one to start.`,
    )
  why.push(`${driver}: ${drivers[driver].strength}.`)
  if (machines === 'many' && run.length > 1) {
    const others = ranking[double].filter((name) => name !== driver && run.some((one) => one === name))
    const crowded = others.filter((name) => isCrowd(name, waiters))
    const behind = others.filter((name) => !crowded.includes(name))
    const measure =
      double === 'harmless' ? 'harmless, speed' : 'not harmless, what is kept when a server dies'
    if (behind.length > 0)
      why.push(`Where a lock held twice is ${measure} decides: before ${behind.join(', ')}.`)
    if (crowded.length > 0)
      why.push(
        `${waiters} waiters are many for ${crowded.join(' and ')}: there waiting is asking again, or takes a connection each.`,
      )
  }
  return why
}

function guardFor(driver: DriverName, { double }: Answers): Advice['guard'] {
  const how = drivers[driver].guard
  if (double === 'harmless')
    return {
      needed: 'no',
      how: 'lease.signal and lease.assertHeld() are enough',
      why: 'work done twice is harmless',
    }
  if (double === 'costly') {
    const why =
      'a process that was paused may write after its lease is over: only the resource that it writes to can prevent that'
    return { needed: 'advised', how, why }
  }
  const why =
    'no lock can keep the work of two holders from overlapping: only the resource that they write to can refuse the older token'
  return { needed: 'required', how, why }
}

function weakPoints(driver: DriverName, { section, waiters, double }: Answers): string[] {
  const last = section * waiters
  const single = double !== 'harmless' && ['redis', 'postgres', 'mysql'].includes(driver)
  return [
    ...(isCrowd(driver, waiters)
      ? [
          `${waiters} waiters are many for ${driver}: let fewer wait, for example by tryAcquire() and a later retry.`,
        ]
      : []),
    ...(last > 3_600_000
      ? [
          `The last of ${waiters} waits for about ${formatTime(last)}: use more names, a semaphore, or a queue of jobs.`,
        ]
      : []),
    ...(single ? ['One server decides: while it is down no lock can be taken.'] : []),
    ...drivers[driver].weak.map(({ says, more }) => says + more),
  ]
}

/** Limits within which an open transaction, and connections waiting inside one, do no harm. */
const transaction = { section: 5_000, waiters: 20 } as const

function alternatives(driver: DriverName, { machines, run, double, section, waiters }: Answers): string[] {
  const instead: string[] = []
  for (const name of ['postgres', 'mysql'] as const) {
    const fits = section <= transaction.section && waiters <= transaction.waiters
    if (run.includes(name) && fits && double !== 'harmless')
      instead.push(
        `inTransaction() of holdfast/${name}, if what the lock guards is in that database and the section is one transaction: the lock ends with the commit, so nobody gets in between.`,
      )
  }
  if (machines === 'one')
    instead.push('memory, if all of it is one process; a store, as soon as there is a second machine.')
  if (driver === 'redis' && double !== 'harmless')
    instead.push(
      'redlock over three independent servers, if one server must not be able to stop all locks; etcd or ZooKeeper decide by majority without relying on clocks.',
    )
  if (double === 'never' && ['redis', 'redlock', 'mysql'].includes(driver))
    instead.push(
      'etcd, ZooKeeper or Consul, if you can run one: a majority decides, so no fail-over loses a lock.',
    )
  return instead
}

function pagesFor(driver: DriverName, { double }: Answers): string[] {
  const guard = double === 'harmless' ? [] : ['docs/guard.md', 'docs/ladder.md#8-fencing']
  return [`docs/drivers/${driver}.md`, ...guard, 'docs/guarantees.md']
}
