/**
 * Events of locks, for logs and metrics: `locks.on('lost', ({ name }) => …)`. Also on `node:diagnostics_channel` as
 * `holdfast:waiting`, `holdfast:granted` and so on, for tools that never see a `Locks`. Listeners are called
 * synchronously; one that throws causes a process warning and affects nothing else.
 */
import { channel } from 'node:diagnostics_channel'
import type { ReleaseResult, WaitStatus } from './driver.js'
import { BackendError, type LossCause } from './errors.js'
import type { Orders } from './lock-order.js'
import type { Mode } from './mode.js'
import { describe } from './name.js'

export interface About {
  readonly name: string
  readonly driver: string
  readonly mode: Mode
  readonly note?: string | undefined
}
export interface AboutLease extends About {
  readonly token: number
}

/** One call of `acquire`, `tryAcquire` or `run`. */
export interface AboutAcquisition extends About {
  /** Identifies the acquisition: unique in this process. 0: the lease was adopted from another process. */
  readonly acquisition: number
}

/** How an acquisition ended without a lease. `busy`: a single attempt found the lock taken. */
export type DenialReason = 'busy' | 'timeout' | 'aborted' | 'failed'

/** A request to the store. */
export type StoreOperation = 'acquire' | 'renew' | 'release' | 'inspect' | 'list' | 'forceRelease' | 'check'

export interface LockEvents {
  /**
   * An acquisition begins, in the async context of its caller; exactly one `granted` or `denied` with the same
   * `acquisition` follows. Not emitted for a reentrant entry, nor when the arguments are refused.
   */
  readonly requested: AboutAcquisition
  /** A claim has to wait; emitted again whenever the driver learns more about what blocks it. */
  readonly waiting: AboutAcquisition & { readonly blocked: WaitStatus }
  /** An acquisition ended without a lease. `waited` in ms; `error` is what the caller gets, absent for `busy`. */
  readonly denied: AboutAcquisition & {
    readonly waited: number
    readonly why: DenialReason
    readonly error?: unknown
  }
  /** Two locks are nested in one order here and in another elsewhere: a deadlock that has not happened yet. */
  readonly order: About & { readonly orders: Orders }
  /** `waited` in ms; `handedOff`: handed over inside the process, without a request to the store. */
  readonly granted: AboutLease & AboutAcquisition & { readonly waited: number; readonly handedOff: boolean }
  /** `remaining` in ms. */
  readonly renewed: AboutLease & { readonly remaining: number }
  /** A renewal is overdue; the lease still holds for `remaining` ms. */
  readonly doubtful: AboutLease & { readonly remaining: number; readonly error?: unknown }
  /** The holder is asked to give way within `grace` ms; else the lock is taken from it. Only where `onRevoke` listens. */
  readonly revokeRequested: AboutLease & {
    readonly grace: number
    readonly client: string
    readonly why?: string | undefined
  }
  /** `held` in ms. */
  readonly lost: AboutLease & { readonly held: number; readonly why: LossCause; readonly cause?: unknown }
  /**
   * `held` in ms; `unknown`: the store did not reply, the lease expires by its ttl; `exported`: the lease goes on in
   * another process.
   */
  readonly released: AboutLease & {
    readonly held: number
    readonly outcome: ReleaseResult | 'unknown' | 'exported'
  }
  /**
   * A lease was probably forgotten; reported once, where `leakWarning` is on. `unreachable`: it was collected without
   * a release. `long`: it is held much longer than leases of its name usually are, `usual` ms. `held` in ms; `stack`
   * is that of its `acquire`.
   */
  readonly leaked: AboutLease & {
    readonly why: 'unreachable' | 'long'
    readonly held: number
    readonly usual?: number
    readonly stack: string
  }
  /**
   * A request to the store failed or was refused; `code` and `quarantined` as in `BackendError`. `name` is absent
   * where the request concerns no single lock. A wait that outlives a failure retries and may report several.
   */
  readonly storeError: {
    readonly driver: string
    readonly name?: string | undefined
    readonly operation: StoreOperation
    readonly code: BackendError['code']
    readonly quarantined: boolean
    readonly error: unknown
  }
}

export type LockEvent = keyof LockEvents
type Listener<E extends LockEvent> = (event: LockEvents[E]) => void

const names = [
  'requested',
  'waiting',
  'denied',
  'order',
  'granted',
  'renewed',
  'doubtful',
  'revokeRequested',
  'lost',
  'released',
  'leaked',
  'storeError',
] as const satisfies readonly LockEvent[]

/** The diagnostics channel of each event. */
export const channels = Object.fromEntries(
  names.map((name) => [name, channel(`holdfast:${name}`)]),
) as Readonly<Record<LockEvent, ReturnType<typeof channel>>>

export class Events {
  readonly #listeners = new Map<LockEvent, Set<(event: never) => void>>()

  /** Returns a function that removes the listener. @throws TypeError for an unknown event */
  on<E extends LockEvent>(event: E, listener: Listener<E>): () => void {
    if (!names.includes(event))
      throw new TypeError(`unknown event ${String(event)}; known are ${names.join(', ')}`)
    if (typeof listener !== 'function')
      throw new TypeError(`a listener of '${event}' must be a function, got ${describe(listener)}`)
    const listeners = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, listeners)
    // A fresh function, so that a listener added twice is called twice, and each removal removes one.
    const entry = (payload: LockEvents[E]) => listener(payload)
    listeners.add(entry)
    return () => void listeners.delete(entry)
  }

  /** Lets the hot path skip a payload that nobody reads. */
  wants(event: LockEvent): boolean {
    return (this.#listeners.get(event)?.size ?? 0) > 0 || channels[event].hasSubscribers
  }

  emit<E extends LockEvent>(event: E, payload: LockEvents[E]): void {
    for (const listener of this.#listeners.get(event) ?? []) {
      try {
        ;(listener as Listener<E>)(payload)
      } catch (error) {
        process.emitWarning(`a listener of '${event}' threw: ${String(error)}`, 'HoldfastWarning')
      }
    }
    if (channels[event].hasSubscribers) channels[event].publish(payload)
  }

  /** Reports a failed request, if anybody listens. */
  storeFailed(driver: string, name: string | undefined, operation: StoreOperation, error: unknown): void {
    if (!this.wants('storeError')) return
    const { code = 'BACKEND', quarantined = false } = error instanceof BackendError ? error : {}
    this.emit('storeError', { driver, name, operation, code, quarantined, error })
  }

  clear(): void {
    this.#listeners.clear()
  }
}
