/**
 * THE contract between holdfast and a store. Read this file first.
 *
 * A driver is a function from its environment to a small object. `acquire` waits in the store's own best way
 * and gives a {@link Grant}, or `undefined` once the wait is over, having left no trace. It throws only when the
 * store is broken or refuses; a lock held by somebody else is never an error. A driver never renews on its own,
 * never knows why a wait ended, and never decides that a lease is lost because of silence: the core does that
 * from `validUntil`.
 *
 * Four rules make a driver safe, and the conformance suite breaks the backend to check them:
 * 1. Ownership is the claim's `attempt` id. Every mutation carries it and may run twice: a repeated acquire answers
 *    "yours, same token", a repeated release never touches a later holder.
 * 2. `validUntil` counts from the clock reading taken *before* the request left: see {@link Clock} and `deadline()`.
 * 3. Tokens of one name never go back and never repeat, whatever the store forgets: see `core/token.ts`.
 * 4. A grant that comes after the wait ended is given back, not forgotten.
 */
import type { Cells } from './cell.js'
import type { Clock } from './clock.js'
import type { BackendError } from './errors.js'
import type { Mode, ModeKind } from './mode.js'

/** What is asked. Plain data: it may be logged or sent. */
export interface Claim {
  /** As the user wrote it, checked by `core/name.ts`: no control characters, at most 512 bytes of UTF-8. */
  readonly name: string
  /** 128 random bits in hex, fresh for every acquisition. The store keeps it as the owner. */
  readonly attempt: string
  readonly mode: Mode
  /** Strict first come, first served across processes. Only asked of drivers whose `traits.fair` is true. */
  readonly fair: boolean
  /** How long a proof of holding is good for, in milliseconds. */
  readonly ttl: number
  /**
   * How much of `validUntil` the core keeps from the caller, whose lease ends by so much earlier: if nobody gives the grant back, others
   * are kept out for so long after. `ttl` has room for it. Absent: nothing.
   */
  readonly lockDelay?: number
  /** Shown to those who wait and to `inspect`. */
  readonly note?: string
}

/** How patient the caller is. Deadline and cancellation are one signal; a driver need not know which ended it. */
export interface Wait {
  /** Aborts when the wait is over: deadline reached or caller gone. Made when first read, so do not read it without need. */
  readonly signal: AbortSignal
  /** True once the wait is over; costs nothing to ask. */
  readonly over: boolean
  /** Milliseconds left: 0 = one attempt only, Infinity = no deadline. */
  remaining(): number
  /** Tell what stands in the way, whenever the driver learns it: it names the holder in errors, events and the CLI. */
  blocked?(by: Blocked): void
}

/** What stands in the way of a claim, as far as the driver knows without asking again. */
export interface Blocked {
  readonly holder?: Holder
  /** Place in line, 1 = next. */
  readonly position?: number
  /** Why the store cannot be asked at present; the driver goes on trying while the wait lasts. */
  readonly trouble?: BackendError
}

/** What the store gave. A plain object of the driver; the core never sees a connection, key or node. */
export interface Grant {
  /** The fence: a safe integer, greater than that of every earlier grant of this name. Never changed by a renewal. */
  readonly token: number
  /** Clock reading until which the newest proof of holding is good. The driver may move it forward by itself. */
  readonly validUntil: number
  /** The store's own notice that this grant is gone for certain (session expired, owner replaced). Never for silence. */
  readonly lost?: AbortSignal
  /**
   * One try to prove the grant again for `ttl` ms. Resolves with the new `validUntil`, or `undefined` when the store
   * says it is not ours any more; rejects when it cannot tell. `signal` ends the try, not the grant.
   */
  renew(ttl: number, signal: AbortSignal): Promise<number | undefined>
  /**
   * Gives the grant back; idempotent. Resolves once the next waiter can be granted. Rejects when the store
   * cannot be reached: the core reports `unknown` and the grant runs out by its ttl.
   */
  release(): Promise<GaveBack>
  /**
   * The next token for another holder inside this process, without asking the store. `undefined`: the reserve is
   * used up and the grant must go back. Absent: the driver cannot pass (shared and permit grants never can).
   */
  pass?(): number | undefined
  /** Does anybody stand in the store's own line for this name? As last heard; only read while passing on. Absent counts as true. */
  contended?(): boolean
  /**
   * The grant was handed to another process, which has taken it over by its attempt, or will, or lets it run out: nothing is to be
   * sent for it any more. Only asked of drivers whose `traits.portable` is true.
   */
  detach?(): void
  /** Turns an exclusive grant into a shared one in one step, so that no writer gets in between. */
  downgrade?(): Promise<void>
}

/** The answer to a release: it was ours, it had been given back before, or somebody else could have had it meanwhile. */
export type GaveBack = 'released' | 'already-released' | 'lost'

export interface Holder {
  readonly attempt: string
  readonly mode: Mode
  readonly token: number
  /** Milliseconds the hold has lasted, by the store's clock. */
  readonly heldFor: number
  /** Milliseconds until the store lets go by itself, by the store's clock; 0 or less: overdue. Infinity: bound to a connection. */
  readonly expiresIn: number
  readonly note?: string
  /** Who it is, as the process describes itself: `host:pid`. */
  readonly by?: string
}

export interface Waiter {
  readonly attempt: string
  readonly mode: Mode
  readonly waitedFor: number
  readonly note?: string
  readonly by?: string
}

/** Who holds and who waits, in the order of the line. */
export interface Standing {
  readonly name: string
  readonly holders: readonly Holder[]
  readonly waiters: readonly Waiter[]
  /** The newest token given for this name; 0 when none is known. */
  readonly lastToken: number
}

/** What a driver can do. A trait exists only where the core or the conformance suite reads it. */
export interface Traits {
  /** A missing mode is refused with `UnsupportedError` when the lock is made. */
  readonly modes: readonly ModeKind[]
  /** False: `fair: true` is refused. True: first come, first served holds across processes. */
  readonly fair: boolean
  /** The least `ttl` in ms that the store can keep; shorter ones are refused. */
  readonly minTtl: number
  /** True: other processes see the same locks. False (memory): conformance leaves out the crash tests. */
  readonly shared: boolean
  /**
   * The longest `lockDelay` in ms. It can be had where a hold whose process is silent, or gone, stays in the store until `validUntil`.
   * Absent: where it does not, and `lockDelay` is refused.
   */
  readonly maxLockDelay?: number
  /** True: the driver has {@link Driver.cells}. Otherwise all that needs them is refused with `UnsupportedError`, and by type. */
  readonly cells?: boolean
  /** True: a hold is bound to its attempt, not to who took it, so a repeated claim from another process takes it over. */
  readonly portable?: boolean
  /**
   * False: the store keeps no line. `inspect` names nobody who waits, and a try may come before those who do. Absent counts as true: who
   * waits is seen, and no try overtakes.
   */
  readonly line?: boolean
  /** True: the driver has {@link Driver.together}. Otherwise several locks are taken one after the other. */
  readonly together?: boolean
  /** How many claims one such step can take; more are taken one after the other. Absent: any number. */
  readonly mostTogether?: number
}

export interface Driver<T extends Traits = Traits> {
  /** Shown in messages: `redis`, `local`, … */
  readonly name: string
  readonly traits: T
  /**
   * Waits for `claim` and gives the grant, or `undefined` when the wait ended first.
   * @throws BackendError when the store cannot be used, with the cause; RangeError when a semaphore's limit differs.
   */
  acquire(claim: Claim, wait: Wait): Promise<Grant | undefined>
  /**
   * Single attempts at several names, no name twice, in one step of the store: a grant for each claim, in their order, or undefined when one
   * of them is not free; then none was touched, or all were given back in one step by a store that tells only after, and nobody has seen one
   * without the others. Present where `traits.together`.
   * @throws as `acquire`
   */
  together?(claims: readonly Claim[], wait: Wait): Promise<readonly Grant[] | undefined>
  inspect(name: string): Promise<Standing>
  /** Every name that is held or waited for and begins with `prefix`. Absent: the store cannot tell. */
  list?(prefix: string): Promise<readonly Standing[]>
  /** Takes the lock from whoever holds it: an operator's tool. Resolves with how many holds it ended. */
  forceRelease?(name: string): Promise<number>
  /** Small shared values beside the locks. Present where `traits.cells`. */
  readonly cells?: Cells
  /** Ends what the driver opened; gives back nothing by itself, the core has done so. Idempotent. */
  close(): Promise<void>
}

/** What a driver is given: time and chance, so that a simulation can own both. */
export interface Env {
  readonly clock: Clock
  /** 128 random bits in hex. */
  readonly id: () => string
  /** A number in [0, 1) for jitter. */
  readonly random: () => number
  /** How this process calls itself to operators: `host:pid`. */
  readonly by: string
}

/** What `memory()`, `local()`, `redis()` … return. Does no I/O; neither does the driver before its first `acquire`. */
export type DriverFactory<T extends Traits = Traits> = (env: Env) => Driver<T>
