/** What the store last reported on a lock to those who wait for it: who holds it, or why the store cannot serve them. */
import type { Holder, WaitStatus } from './driver.js'
import type { BackendError } from './errors.js'

export interface LastReport {
  /** The last report on who holds the lock, and the clock reading then. */
  readonly status: { readonly by: WaitStatus; readonly at: number } | undefined
  /** Set while the store is in trouble. */
  readonly error: BackendError | undefined
}

/** @param before its status is kept while the store is in trouble */
export function lastReport(by: WaitStatus, at: number, before?: LastReport): LastReport {
  const { error } = by
  return error === undefined ? { status: { by, at }, error } : { status: before?.status, error }
}

/** The holder with its ages as of `now`. */
export function holderAt(status: LastReport['status'], now: number): Holder | undefined {
  const holder = status?.by.holder
  if (status === undefined || holder === undefined) return undefined
  const later = now - status.at
  return { ...holder, heldFor: holder.heldFor + later, expiresIn: holder.expiresIn - later }
}
