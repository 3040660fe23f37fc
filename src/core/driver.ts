/**
 * THE contract between holdfast and a store. Read this file first.
 *
 * A driver is a function that takes its environment and returns a small object. `acquire` waits in the way that suits
 * the store best and resolves with a {@link Grant}, or with `undefined` once the wait is over; it has then left no
 * trace. It throws only when the store is broken or refuses; a lock that somebody else holds is never an error. A
 * driver never renews on its own, never knows why a wait ended, and never concludes from silence that a lease is
 * lost: the core decides that from `validUntil`.
 *
 * Long because a contract is read in one piece.
 *
 * Four rules make a driver safe; the conformance suite breaks the backend to check them:
 * 1. Ownership is the claim's `attempt` id. Every mutation carries it and may run twice: a repeated acquire replies
 *    "yours, same token"; a repeated release never touches a later holder; a late copy of an acquire or a renewal does
 *    not shorten what a later renewal has promised.
 * 2. `validUntil` counts from the clock reading taken *before* the request left: see {@link Clock} and `deadline()`.
 * 3. Tokens of one name never decrease and never repeat, whatever the store forgets: see `core/token.ts`.
 * 4. The driver releases a grant that arrives after the wait ended; it does not forget it.
 */
import type { Cells } from './cell.js'
import type { Clock } from './clock.js'
import type { BackendError } from './errors.js'
import type { LossSignal } from './loss-notice.js'
import type { Mode, ModeKind } from './mode.js'

/** A request for a lock. Plain data: it may be logged or sent. */
export interface Claim {
  /** As the user wrote it, checked by `core/name.ts`: no control characters, at most 512 bytes of UTF-8. */
  readonly name: string
  /** 128 random bits in hex, fresh for every acquisition. The store keeps it as the owner. */
  readonly attempt: string
  readonly mode: Mode
  /** Strict first come, first served across processes. Only asked of drivers whose `traits.fair` is true. */
  readonly fair: boolean
  /** How long each proof of ownership is valid, in milliseconds. */
  readonly ttl: number
  /**
   * The lease ends this many ms before `validUntil`; an unreleased lock therefore stays taken that much longer.
   * Already included in `ttl`. Absent: 0.
   */
  readonly lockDelay?: number
  /** Shown to waiters and by `inspect`. */
  readonly note?: string
}

/**
 * How long the caller waits. One signal covers deadline and cancellation; a driver need not know which ended the
 * wait.
 */
export interface Wait {
  /**
   * Aborts when the wait is over: the deadline has passed or the caller has gone. Created on first read, so read it
   * only when needed.
   */
  readonly signal: AbortSignal
  /** True once the wait is over; costs nothing to read. */
  readonly ended: boolean
  /** Milliseconds left: 0 = one attempt only, Infinity = no deadline. */
  remaining(): number
  /**
   * Reports what blocks the claim. Call it whenever the driver learns more: errors, events and the CLI name the
   * holder from it. A wait that reported nothing but `error` ends as an outage, not as a lock that was not free.
   */
  report?(status: WaitStatus): void
}

/** What blocks a claim, as far as the driver knows without querying the store again. */
export interface WaitStatus {
  readonly holder?: Holder
  /** Position in the queue, 1 = next. */
  readonly position?: number
  /** Why the store cannot serve requests at present; the driver retries while the wait lasts. */
  readonly error?: BackendError
}

/** What the store granted. A plain object of the driver; the core never sees a connection, key or node. */
export interface Grant {
  /**
   * The fencing token: a safe integer, greater than that of every earlier grant of this name. A renewal never changes
   * it.
   */
  readonly token: number
  /**
   * Clock reading until which the newest proof of ownership is valid. The driver may move it forward on its own.
   * `-Infinity` once the grant is certainly gone.
   */
  readonly validUntil: number
  /** Like {@link Traits.maxTtl}, according to what the store granted. */
  readonly maxTtl?: number
  /**
   * The only way to report a loss: the grant is certainly gone (session expired, an operator released it, owner
   * replaced). Never abort it because of silence, nor because of a message that anybody could have sent: query the
   * store then. `validUntil` is `-Infinity` by the time the signal aborts. The core reads `lost` once the grant
   * outlives the current microtasks, so the driver may create it then, already aborted if the grant is gone.
   * {@link LossNotice} of the kit is one; so is an `AbortSignal`.
   */
  readonly lost?: LossSignal
  /**
   * One attempt to renew the grant for `ttl` ms, which may be longer or shorter than before. Resolves with the new
   * `validUntil` as the store has just replied, not with the greater of old and new; resolves with `undefined` when
   * the store replies that the grant is no longer ours; rejects when the outcome is unknown. RangeError,
   * UnsupportedError: the grant cannot last that long, and nothing was sent. `signal` ends the attempt, not the
   * grant. The core counts with the least of what the store may have carried out: `core/validity.ts`.
   */
  renew(ttl: number, signal: AbortSignal): Promise<number | undefined>
  /**
   * Releases the grant; idempotent. Resolves once the next waiter can be granted. Rejects when the store cannot be
   * reached: the core then reports `unknown`, and the grant expires by its ttl.
   */
  release(): Promise<ReleaseResult>
  /**
   * The next token, for another holder inside this process, without a request to the store. `undefined`: the reserve
   * is used up and the grant must be released. Absent: the driver cannot hand over locally (shared and permit grants
   * never can).
   */
  nextReservedToken?(): number | undefined
  /**
   * Where every token is minted by the store: the next token, by one write that succeeds only while the grant is held,
   * for another holder inside this process. `undefined`: the grant is over, or the store refuses. Rejects when the
   * outcome is unknown. In both cases the grant is released, and a token that nobody got is never used.
   */
  nextToken?(): Promise<number | undefined>
  /**
   * Does anybody wait in the store's own queue for this name? As last reported; read only during a local hand-over.
   * Absent counts as true.
   */
  contended?(): boolean
  /**
   * Set by the core: call it in the same turn of the event loop when `contended()` becomes true, when a notification of
   * that may have been lost, and when the grant may be over. Read only where `traits.caching`.
   */
  onContended?: (() => void) | undefined
  /**
   * The grant was handed to another process, which has taken it over by its attempt, will do so, or lets it expire:
   * send nothing for it any more. Called only on drivers whose `traits.portable` is true.
   */
  detach?(): void
  /** Turns an exclusive grant into a shared one in one step, so that no writer gets in between. */
  downgrade?(): Promise<void>
}

/**
 * The result of a release: the grant was ours, it had already been released, or somebody else could have held the
 * lock meanwhile.
 */
export type ReleaseResult = 'released' | 'already-released' | 'lost'

export interface Holder {
  readonly attempt: string
  readonly mode: Mode
  readonly token: number
  /** Milliseconds the hold has lasted, by the store's clock. */
  readonly heldFor: number
  /**
   * Milliseconds until the store releases it by itself, by the store's clock; 0 or less: overdue. Infinity: bound to
   * a connection.
   */
  readonly expiresIn: number
  readonly note?: string
  /** Who holds it, as the process describes itself: `host:pid`. */
  readonly client?: string
}

export interface Waiter {
  readonly attempt: string
  readonly mode: Mode
  readonly waitedFor: number
  readonly note?: string
  readonly client?: string
}

/** Holders and waiters, in queue order. */
export interface LockStatus {
  readonly name: string
  readonly holders: readonly Holder[]
  readonly waiters: readonly Waiter[]
  /** The newest token granted for this name; 0 when none is known. */
  readonly lastToken: number
  /** How many holders and waiters are not listed. Absent: none. `redis` lists up to 10,000 holders and 1,000 waiters. */
  readonly unlisted?: number
}

/** What a driver can do. A trait exists only where the core or the conformance suite reads it. */
export interface Traits {
  /** Making a lock with a missing mode throws `UnsupportedError`. */
  readonly modes: readonly ModeKind[]
  /** False: `fair: true` is refused. True: first come, first served holds across processes. */
  readonly fair: boolean
  /** The shortest `ttl` in ms that the store can keep; shorter ones are refused. */
  readonly minTtl: number
  /**
   * The longest `ttl` in ms that a lease can be worth. A longer one is reduced to it, and `lease.ttl` shows the
   * reduced value. Absent: no bound.
   */
  readonly maxTtl?: number
  /** True: other processes see the same locks. False (memory): conformance leaves out the crash tests. */
  readonly shared: boolean
  /**
   * The longest `lockDelay` in ms. Present where the hold of a silent or dead process stays in the store until
   * `validUntil`. Absent: the hold does not stay, and `lockDelay` is refused.
   */
  readonly maxLockDelay?: number
  /**
   * True: the driver has {@link Driver.cells}. Otherwise everything that needs cells is refused with
   * `UnsupportedError`, and by type.
   */
  readonly cells?: boolean
  /**
   * True: a hold is bound to its attempt, not to the client that acquired it, so a repeated claim from another
   * process takes it over.
   */
  readonly portable?: boolean
  /**
   * False: the store has no wait queue; `inspect` lists no waiters, and an attempt may barge past them. Absent counts
   * as true: waiters are listed, and no attempt barges.
   */
  readonly queue?: boolean
  /**
   * True: a grant may be cached after its release (`linger`). The driver has reserved tokens, and learns by a push that
   * others wait: see `onContended` of {@link Grant}. Absent: `linger` is refused.
   */
  readonly caching?: boolean
  /** True: the driver has {@link Driver.acquireMany}. Otherwise several locks are acquired one after the other. */
  readonly acquireMany?: boolean
  /** How many claims one such step can acquire; more are acquired one after the other. Absent: any number. */
  readonly maxBatch?: number
}

export interface Driver<T extends Traits = Traits> {
  /** Shown in messages: `redis`, `local`, … */
  readonly name: string
  readonly traits: T
  /**
   * Waits for `claim` and resolves with the grant, or with `undefined` when the wait ended first.
   * @throws BackendError when the store cannot be used, with the cause, and with `unanswered` where the cause is
   * silence and not a refusal; RangeError when a semaphore's limit differs.
   */
  acquire(claim: Claim, wait: Wait): Promise<Grant | undefined>
  /**
   * Single attempts at several names, each name once, in one step of the store. Resolves with a grant for each claim,
   * in their order, or with undefined when one of them is not free. In that case none was touched; or, with a store
   * that reports this only afterwards, all were released in one step, and no client has seen one without the others.
   * Present where `traits.acquireMany`. With `traits.caching`, a driver that knows from the reply who holds the lock that is
   * not free, or that no such holder may be a cache, reports that: otherwise the core inspects each name.
   * @throws as `acquire`
   */
  acquireMany?(claims: readonly Claim[], wait: Wait): Promise<readonly Grant[] | undefined>
  inspect(name: string): Promise<LockStatus>
  /** Every name that begins with `prefix` and has a holder or waiter. Absent: the store cannot list names. */
  list?(prefix: string): Promise<readonly LockStatus[]>
  /** Force-releases the lock: an operator's tool. Resolves with the number of holds it ended. */
  forceRelease?(name: string): Promise<number>
  /** Small shared values beside the locks. Present where `traits.cells`. */
  readonly cells?: Cells
  /** Closes what the driver opened. It releases nothing by itself: the core has done so. Idempotent. */
  close(): Promise<void>
}

/** What the core gives a driver: time and randomness, so that a simulation can own both. */
export interface Env {
  readonly clock: Clock
  /** 128 random bits in hex. */
  readonly id: () => string
  /** A number in [0, 1) for jitter. */
  readonly random: () => number
  /** How this process identifies itself to operators: `host:pid`. */
  readonly client: string
}

/**
 * What `memory()`, `local()`, `redis()` … return. The factory does no I/O; the driver does none before its first
 * `acquire`.
 */
export type DriverFactory<T extends Traits = Traits> = (env: Env) => Driver<T>
