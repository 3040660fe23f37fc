/** A call under a lock, and the lease it runs under. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { AcquireOptions, Lease, Lock } from 'holdfast'

const leases = new AsyncLocalStorage<Lease>()

/** The lease of the innermost locked call that this code runs in: for its token and signal. `undefined` outside of one. */
export function currentLease(): Lease | undefined {
  return leases.getStore()
}

/** `lock.run(fn)`, with the lease for `currentLease()`. Throws as `lock.run`. */
export function runLocked<R>(lock: Lock, fn: () => R | PromiseLike<R>, options?: AcquireOptions): Promise<R> {
  return lock.run((lease) => leases.run(lease, fn), options)
}
