/**
 * The permitted deviations: a driver may answer differently only because of a declared trait, only in the declared way, and for the reason
 * given here, which the docs print. Any other deviation is a defect.
 */
import type { Traits } from 'holdfast'
import type { Driver } from 'holdfast/driver'
import type { Fixture } from '../fixture.js'

/** The declarations of a driver and its fixture. */
export interface Declared {
  readonly traits: Traits
  readonly driver: Pick<Driver, 'list' | 'forceRelease'>
  readonly reportsLoss: boolean
}

export interface Difference {
  /** The name of the declaration: usually a trait. */
  readonly id: string
  readonly isDeclared: (by: Declared) => boolean
  /** The promise that is kept in part, or not at all. */
  readonly promise: string
  readonly is: 'in part' | 'no'
  /** The answers given instead; several if not determined. */
  readonly answers: Readonly<Record<string, readonly string[]>>
  /** The chapter ends after the last of these. */
  readonly ends?: boolean
  /** The declaration and its consequence, as a sentence for the docs. */
  readonly because: string
}

const refused = ['UnsupportedError UNSUPPORTED']

export const differences: readonly Difference[] = [
  {
    id: 'line',
    isDeclared: ({ traits }) => traits.queue === false,
    promise: 'a waiter gets the released lock, and no try passes it',
    is: 'in part',
    answers: { 'c tries while a releases': ['undefined', 'a lease'] },
    because:
      '`traits.queue` is `false`: the store keeps no queue. Every waiter is served, but a try may come before it.',
  },
  {
    id: 'fair',
    isDeclared: ({ traits }) => !traits.fair,
    promise: '`fair: true` is first come, first served',
    is: 'no',
    answers: { 'a acquires with fair: true': refused },
    ends: true,
    because: '`traits.fair` is `false`: `fair: true` throws `UnsupportedError` before anything is sent.',
  },
  {
    id: 'maxTtl',
    isDeclared: ({ traits }) => (traits.maxTtl ?? Number.POSITIVE_INFINITY) < 30_000,
    promise: '`extend` works in both directions',
    is: 'in part',
    answers: { 'a extends to 30 s: nine tenths are left': ['false'] },
    because:
      '`traits.maxTtl` bounds what a lease can be worth. A longer `ttl` is cut to that, and `lease.ttl` says so; the watchdog still keeps the lease for as long as you hold it.',
  },
  {
    id: 'reportsLoss',
    isDeclared: ({ reportsLoss, driver }) => !reportsLoss && driver.forceRelease !== undefined,
    promise: 'a forced release is heard at once',
    is: 'in part',
    answers: { 'a hears of the loss': ['taken', 'revoked'] },
    because:
      'The holder hears of it with its next renewal at the latest, after a third of its `ttl`. `signal`, event and state then agree all the same.',
  },
  {
    id: 'forceRelease',
    isDeclared: ({ driver }) => driver.forceRelease === undefined,
    promise: 'a forced release is heard at once',
    is: 'no',
    answers: { 'c releases a free lock by force': refused },
    ends: true,
    because: 'The driver has no `forceRelease`: `locks.forceRelease()` throws `UnsupportedError`.',
  },
  {
    id: 'shared',
    isDeclared: ({ traits }) => !traits.shared,
    promise: 'a holder that is killed keeps nobody out for long',
    is: 'no',
    answers: { 'another process': ['does not see the store'] },
    ends: true,
    because: '`traits.shared` is `false`: the store ends with its only process.',
  },
  {
    id: 'maxLockDelay',
    isDeclared: ({ traits }) => (traits.maxLockDelay ?? 0) === 0,
    promise: '`lockDelay` keeps others out after a loss',
    is: 'no',
    answers: { 'a acquires with a lockDelay': refused },
    ends: true,
    because: '`traits.maxLockDelay` is absent: `lockDelay` throws `UnsupportedError`.',
  },
  {
    id: 'shared mode',
    isDeclared: ({ traits }) => !traits.modes.includes('shared'),
    promise: 'readers share, a writer is alone',
    is: 'no',
    answers: { 'a makes a read/write lock': refused },
    ends: true,
    because:
      "`traits.modes` lacks `'shared'`: whatever needs readers throws `UnsupportedError` when it is made, and does not compile.",
  },
  {
    id: 'permits',
    isDeclared: ({ traits }) => !traits.modes.includes('permits'),
    promise: 'a semaphore counts by weight',
    is: 'no',
    answers: { 'a makes a semaphore of 3': refused },
    ends: true,
    because:
      "`traits.modes` lacks `'permits'`: `semaphore` throws `UnsupportedError` when it is made, and does not compile.",
  },
  {
    id: 'acquireMany',
    isDeclared: ({ traits }) => traits.acquireMany !== true,
    promise: 'several locks are taken together, in one step',
    is: 'in part',
    answers: { 'requests for a lock': ['2'] },
    because:
      '`traits.acquireMany` is not `true`: `locks.all` takes one after the other, in one order for everybody, and gives all back when one of them is not free.',
  },
  {
    id: 'line',
    isDeclared: ({ traits }) => traits.queue === false,
    promise: '`inspect`, `list` and `check` name holders and waiters',
    is: 'in part',
    answers: { 'c looks meanwhile: waiters': ['none'] },
    because: '`traits.queue` is `false`: the store keeps no queue, so `inspect` names no waiters.',
  },
  {
    id: 'list',
    isDeclared: ({ driver }) => driver.list === undefined,
    promise: '`inspect`, `list` and `check` name holders and waiters',
    is: 'in part',
    answers: { 'c lists the name': refused },
    because:
      'The driver has no `list`: `locks.list()` throws `UnsupportedError`. `inspect` and `check` work.',
  },
  {
    id: 'cells',
    isDeclared: ({ traits }) => traits.cells !== true,
    promise: 'small values beside the locks: `once` and others',
    is: 'no',
    answers: { 'a pays once': refused },
    ends: true,
    because:
      '`traits.cells` is not `true`: whatever needs them throws `UnsupportedError` when it is made, and does not compile.',
  },
  {
    id: 'portable',
    isDeclared: ({ traits }) => traits.portable !== true || traits.cells !== true,
    promise: 'a lease moves to another process',
    is: 'no',
    answers: { 'a exports it': refused },
    ends: true,
    because:
      '`traits.portable` is not `true`: a hold belongs to the client that acquired it; `export` throws `UnsupportedError`, and does not compile.',
  },
]

/** The deviations that this driver and fixture declare. */
export function declaredBy(driver: Driver, { reportsLoss = false }: Fixture): readonly Difference[] {
  return differences.filter(({ isDeclared }) => isDeclared({ traits: driver.traits, driver, reportsLoss }))
}
