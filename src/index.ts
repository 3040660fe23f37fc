/**
 * Distributed locks with fencing tokens, bounded leases and a published fault-injection suite.
 *
 * ```ts
 * import { createLocks } from 'holdfast'
 * import { local } from 'holdfast/local'
 *
 * const locks = createLocks(local())
 * await locks.mutex('account:42').run(async (lease) => {
 *   lease.assertHeld()
 * })
 * await locks.close()
 * ```
 * @module
 */
export type { Lock } from './core/acquire.js'
export type {
  DriverFactory,
  Holder,
  LockStatus,
  ReleaseResult,
  Traits,
  Waiter,
  WaitStatus,
} from './core/driver.js'
export { type Duration, toMilliseconds } from './core/duration.js'
export {
  AcquireTimeoutError,
  BackendError,
  DeadlockError,
  type ErrorCode,
  HoldfastError,
  LatchGoneError,
  LeaseLostError,
  type LossCause,
  PoolClosedError,
  StaleTokenError,
  TooManyWaitersError,
  UnsupportedError,
  VersionConflictError,
} from './core/errors.js'
export type { DenialReason, LockEvent, LockEvents, StoreOperation } from './core/events.js'
export type { Health, HealthOptions, HealthStatus } from './core/health.js'
export type { LeakWarningOptions } from './core/leaks.js'
export type { Lease, LeaseState, ReleaseOutcome } from './core/lease.js'
export type { Mode, ModeKind } from './core/mode.js'
export type { AcquireOptions, Defaults, ParticipantDefaults, TryOptions } from './core/options.js'
export type { WaitOptions } from './core/with-deadline.js'
export { type AbilitiesOf, type Ability, createLocks, type Locks, type LocksOptions } from './create-locks.js'
export type { Barrier, BarrierEntry, EnterOptions } from './locks/barrier.js'
export type { CampaignOptions, Election } from './locks/election.js'
export type { Job, JobOptions, JobRun } from './locks/job.js'
export type { JoinOptions, Latch, LatchOptions } from './locks/latch.js'
export type { Leader } from './locks/leader-record.js'
export type { Term } from './locks/leadership.js'
export type { MultiLease } from './locks/multi-lease.js'
export type { MultiLock } from './locks/multi-lock.js'
export type { OnceOptions } from './locks/once.js'
export type { Pool, PoolOptions } from './locks/pool.js'
export type { PermitHolder } from './locks/pool-holders.js'
export type { PoolAcquireOptions } from './locks/pool-queue.js'
export type { ReadWriteLock } from './locks/read-write.js'
export type { RevokeOptions, RevokeOutcome, RevokeRequest } from './locks/revoke.js'
export type { SemaphoreOptions } from './locks/semaphore.js'
export type { AdoptOptions } from './locks/transfer.js'
export type { UpgradeableLease, UpgradeableLock, UpgradeableOptions } from './locks/upgradeable.js'
