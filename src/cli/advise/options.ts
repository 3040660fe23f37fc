/** Driver and lock options that follow from the answers. */
import type { Answers } from './answers.js'
import type { DriverName } from './drivers.js'

export interface Option {
  readonly name: string
  readonly value: string | number | boolean
  readonly why: string
}

/** How long a crash may block others without causing concern, in ms. */
const short = { section: 5_000, ttl: '10s', ttlMs: 10_000 } as const

/** Driver options. */
export function driverOptions(driver: DriverName, { section, waiters, double }: Answers): Option[] {
  const options: Option[] = []
  if (driver === 'redis' && section <= short.section)
    options.push({
      name: 'maxTtl',
      value: short.ttlMs,
      why: 'after a restart without data, free locks are refused for 10 s instead of 30 s; say the same in every process, and no ttl may be longer',
    })
  if (driver === 'redis' && double !== 'harmless')
    options.push({
      name: 'eviction',
      value: 'refuse',
      why: 'a server that may drop locks in use is refused instead of warned of',
    })
  if (driver === 'mysql' && waiters > 0)
    options.push({
      name: 'wakeWithGetLock',
      value: true,
      why: 'wakes the next waiter at once, for two statements more in each hold',
    })
  return options
}

/** Here a crash ends the hold with a connection or session, so `ttl` is irrelevant. */
const bySession: readonly DriverName[] = ['local', 'zookeeper']

/** From this many waiters on, order matters. */
const line = 10

/** Lock options. */
export function lockOptions(driver: DriverName, { section, waiters }: Answers): Option[] {
  const options: Option[] = []
  if (section <= short.section && !bySession.includes(driver))
    options.push({
      name: 'ttl',
      value: short.ttl,
      why: 'a crashed holder blocks the others for that long; the lease is renewed while the section lasts',
    })
  if (3 * section <= maxTime)
    options.push({
      name: 'maxHold',
      value: formatTime(3 * section),
      why: 'a section that hangs loses the lock after three times what it should take',
    })
  const last = section * waiters
  if (waiters === 0)
    options.push({ name: 'wait', value: 0, why: 'nobody waits: one attempt, as tryAcquire() makes it' })
  else if (last > 20_000)
    options.push({
      name: 'wait',
      value: formatTime(Math.min(1.5 * last, maxTime)),
      why: `the last of ${waiters} waits for about ${formatTime(last)}, longer than the default of 30s`,
    })
  if (waiters >= line && !['mysql', 'redlock'].includes(driver))
    options.push({ name: 'fair', value: true, why: 'first come, first served across all processes' })
  return options
}

/** The library's maximum, in ms. */
const maxTime = 366 * 86_400_000

/** In the library's duration format. */
export function formatTime(ms: number): string {
  const whole = Math.ceil(ms)
  const units = [
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1_000],
  ] as const
  const [unit, size] = units.find(([, size]) => whole >= 2 * size) ?? ['ms', 1]
  return `${Math.ceil(whole / size)}${unit}`
}
