/** The shapes of the Web Locks specification, §3, and the additions to them. */
import type { Lease, Lock, LockStatus, Locks } from 'holdfast'

export type LockMode = 'exclusive' | 'shared'

/** §3.2, dictionary LockOptions. */
export interface LockOptions {
  /** @default 'exclusive' */
  mode?: LockMode
  /** Do not wait: call back with `null` when the lock is not free. @default false */
  ifAvailable?: boolean
  /** Take the lock from its holder, ahead of all waiters. @default false */
  steal?: boolean
  /** Cancels the wait, not the lock. */
  signal?: AbortSignal
}

/** §3.3, interface Lock; and the lease behind it, which `navigator.locks` does not have. */
export interface GrantedLock {
  readonly name: string
  readonly mode: LockMode
  /** For `lease.token`, `lease.signal` and `lease.assertHeld()`: a lock that spans machines can be lost. */
  readonly lease: Lease
}

/** Called with the lock, or with `null` when `ifAvailable` found it taken. */
export type LockGrantedCallback<T, L extends GrantedLock | null = GrantedLock> = (
  lock: L,
) => T | PromiseLike<T>

/** §3.2, dictionary LockInfo. */
export interface LockInfo {
  name: string
  mode: LockMode
  clientId: string
}

/** §3.2, dictionary LockManagerSnapshot. */
export interface LockManagerSnapshot {
  held: LockInfo[]
  pending: LockInfo[]
}

/** §3.2, interface LockManager. Every failure is a rejection; none is thrown. */
export interface LockManager {
  /**
   * Calls back once the lock is granted and holds it until the callback's result has settled. Rejects with a
   * DOMException: `NotSupportedError` for a name that begins with `-`, options that exclude each other, or what the
   * driver does not support; `AbortError` when the lock was stolen or lost (with the `LeaseLostError` as `cause`);
   * `signal.reason` when the wait was aborted; `TypeError` for arguments of the wrong kind; `BackendError` when the
   * store cannot be used.
   */
  request<T>(name: string, callback: LockGrantedCallback<T>): Promise<T>
  request<T>(
    name: string,
    options: LockOptions & { ifAvailable: true },
    callback: LockGrantedCallback<T, GrantedLock | null>,
  ): Promise<T>
  request<T>(
    name: string,
    options: LockOptions & { ifAvailable?: false },
    callback: LockGrantedCallback<T>,
  ): Promise<T>
  request<T>(
    name: string,
    options: LockOptions,
    callback: LockGrantedCallback<T, GrantedLock | null>,
  ): Promise<T>
  /** The holders and waiters of the whole store. `NotSupportedError` when the driver cannot list its locks. */
  query(): Promise<LockManagerSnapshot>
}

export interface LockManagerOptions {
  /** The id of this client in `query`: 1 to 64 letters, digits, `-`, `_` or `.`. @default a random UUID */
  readonly clientId?: string
  /** How long a lock outlives its last proof, in ms. @default that of the locks */
  readonly ttl?: number
}

/** The part of `createLocks(driver)` used here, whatever the driver's modes. */
export interface LocksOfAnyDriver extends Pick<Locks, 'driver' | 'inspect' | 'list' | 'forceRelease' | 'on'> {
  mutex(name: string): Lock
  inspect(name: string): Promise<LockStatus>
}
