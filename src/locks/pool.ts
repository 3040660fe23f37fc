/**
 * A semaphore whose number of permits can be changed while it is used, and which reports its holders.
 *
 * Limit and queue share one cell; every holder and waiter has a shared lease of the name, which proves it alive.
 * Every change of the cell removes those that have died and grants from the head of the queue for as long as requests fit, so
 * it is first come, first served, and no request overtakes a large one. After the pool was made smaller, no permit is
 * granted until enough have been released; after it was closed, none at all, and every waiter leaves the queue. A
 * plain semaphore takes one request where this one takes three or more.
 *
 * The queue and who is granted next are decided in `pool-state.ts`.
 * Long because the verbs of one pool share its cell and its lease.
 */

import type { Cell } from '../core/cell.js'
import { CellRef } from '../core/cell-ref.js'
import type { Holder } from '../core/driver.js'
import { duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, PoolClosedError } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { checkName, describe, quote } from '../core/name.js'
import {
  type AcquireOptions,
  checkOptions,
  checkPermitsOptions,
  checkSingle,
  type Defaults,
  resolveTerms,
  type Terms,
} from '../core/options.js'
import { checkMaxPending } from '../core/pending.js'
import {
  answered,
  checkWaitOptions,
  type Deadline,
  readOnce,
  restOfWait,
  type WaitOptions,
  withDeadline,
} from '../core/with-deadline.js'
import { beginHold, checkInterval, createMembership, type Membership, whileWaiting } from './membership.js'
import {
  findEntry,
  grantFromHead,
  holdersOfClosed,
  type PoolEntry,
  type PoolState,
  parsePool,
  withoutEntry,
  withRequest,
} from './pool-state.js'

/** Options left out come from `createLocks`. */
export interface PoolOptions extends Defaults {
  /** From 1 to 1,000,000. Used only where no number has been set before; otherwise the number in the store stands. */
  readonly permits: number
}

export type PoolAcquireOptions = Pick<
  AcquireOptions,
  'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note' | 'permits' | 'maxPending'
>

/** A holder of permits. */
export interface PermitHolder {
  readonly permits: number
  readonly token: number
  /** Milliseconds since it joined the queue, by the store's clock. */
  readonly since: number
  readonly note?: string
  readonly client?: string
}

export interface Pool {
  readonly name: string
  /**
   * Waits for `permits` (1). `maxHold` and `autoRenew: false` apply from the moment they are granted. Tokens grow in the
   * order in which holders came, not in which they were served.
   * @throws AcquireTimeoutError; PoolClosedError; LeaseLostError when the lease of its queue entry was lost;
   * TooManyWaitersError when `maxPending` others of this process wait for permits of this pool; as `Lock.acquire`
   */
  acquire(options?: PoolAcquireOptions): Promise<Lease>
  /** One attempt: `undefined` when the permits are not free now. @throws PoolClosedError; as `Lock.tryAcquire` */
  tryAcquire(options?: Omit<PoolAcquireOptions, 'wait' | 'maxPending'>): Promise<Lease | undefined>
  /** Changes the number for everybody, at once. Holders keep what they have. @throws RangeError */
  resize(permits: number): Promise<void>
  /**
   * Closes it for everybody, in every process, until `open`: from the store's reply on nobody is granted permits,
   * waiters are rejected with `PoolClosedError`, and holders keep what they have. Resolves once all permits are back,
   * those of crashed holders when their leases have ended; false: they were not within `wait` (the default of the
   * pool), or somebody opened it meanwhile. However short `wait` is, the pool is closed then. Idempotent.
   * @throws BackendError when the store does not reply, and it may be closed or not; the reason of `signal`, which
   * does not open it again
   */
  close(options?: WaitOptions): Promise<boolean>
  /** Opens it again, for everybody. Idempotent. @throws BackendError */
  open(): Promise<void>
  /**
   * Removes what the store keeps of it: its size, and that it is closed. False, and nothing changed: somebody holds
   * permits or waits.
   * @throws BackendError
   */
  delete(): Promise<boolean>
  /** The number of permits. */
  size(): Promise<number>
  /**
   * Holders and their permits, in the order in which they came. One that came just now may be missing while others come
   * and go all the time.
   */
  holders(): Promise<readonly PermitHolder[]>
}

const maxPermits = 1_000_000
const leaveTimeout = 1_000
/** How often `holders` looks at most, while others come and go. */
const maxReads = 5

export function pool(engine: Engine, name: string, options: PoolOptions): Pool {
  checkName(name)
  checkPermitsOptions('pool()', options)
  const { permits, ...given } = options
  const first = whole(`permits of pool ${quote(name)}`, permits)
  const defaults = engine.resolveDefaults('pool()', given)
  const cellRef = new CellRef(engine, 'pool', name)
  const membership = createMembership(cellRef, name, 'a pool', {
    ...defaults,
    maxPending: Number.POSITIVE_INFINITY,
  })
  const removeDead = async (line: readonly PoolEntry[], bounds: Deadline) => {
    const attempts = line.map(({ attempt }) => attempt)
    const alive = new Set(await membership.alive(attempts, bounds))
    return line.filter(({ attempt }) => alive.has(attempt))
  }
  const change = (bounds: Deadline, act: (state: PoolState, kept: boolean) => PoolState | undefined) =>
    cellRef.update(async (cell) => {
      const state = parsePool(cell) ?? { size: first, line: [] }
      const next = act({ ...state, line: await removeDead(state.line, bounds) }, cell !== undefined)
      const value = next && JSON.stringify(grantFromHead(next))
      return value === undefined || value === cell?.value
        ? undefined
        : { value, keep: Number.POSITIVE_INFINITY }
    }, bounds)

  /** Removes a queue entry. The queue may have been deleted once the lease was released. */
  const without = (attempt: string) => (bounds: Deadline) =>
    change(bounds, (state, kept) => (kept ? withoutEntry(state, attempt) : undefined))

  /** True once the request has been served; a single attempt does not queue. */
  async function serve(lease: HeldLease, take: number, bounds: Deadline): Promise<true | undefined> {
    lease.assertHeld()
    const { attempt } = lease.hold.watchdog.claim
    const cell = await change(bounds, (state) => withRequest(state, attempt, take, bounds.once))
    const state = parsePool(cell)
    if (findEntry(state, attempt)?.in) return true
    if (state?.closed) throw new PoolClosedError(name)
    return undefined
  }

  /**
   * Takes the shared lease that proves this member alive. While it waits, `autoRenew` and `maxHold` of its caller do not
   * apply: they do once it is served. Undefined: not granted in time, or a mutex of this name was in the way.
   */
  async function join(
    { wait: _, ...terms }: PoolAcquireOptions,
    wait: number,
  ): Promise<HeldLease | undefined> {
    if (wait === 0) return membership.lock.tryAcquire(terms)
    const waiting = { ...terms, wait, ...whileWaiting }
    return membership.lock.take(waiting).catch((error: unknown) => {
      if (!(error instanceof AcquireTimeoutError) || error.cause !== undefined) throw error
      return undefined
    })
  }

  async function take(options: PoolAcquireOptions): Promise<Lease | undefined> {
    checkOptions(options)
    const { permits = 1, maxPending, ...given } = options
    whole(`permits asked of pool ${quote(name)}`, permits)
    const terms = resolveTerms(engine.driver.name, engine.traits, defaults, given)
    const { wait } = terms
    const most = checkMaxPending(maxPending ?? defaults.maxPending)
    const leave = wait === 0 ? undefined : engine.pending.enter(cellRef.key, name, most)
    try {
      return await waitFor(permits, given, terms)
    } finally {
      leave?.()
    }
  }

  async function waitFor(
    permits: number,
    given: PoolAcquireOptions,
    terms: Terms,
  ): Promise<Lease | undefined> {
    const from = engine.clock.now()
    const { wait, signal } = terms
    const lease = await join(given, wait)
    if (lease === undefined) return undefined
    const { attempt } = lease.hold.watchdog.claim
    try {
      const left = wait === 0 ? 0 : Math.max(1, wait - (engine.clock.now() - from))
      const within = { wait: left, ...(signal !== undefined && { signal }) }
      const looking = (bounds: Deadline) =>
        cellRef.waitUntil(() => serve(lease, permits, bounds), bounds, checkInterval)
      const done = await answered(engine, name, within, looking, restOfWait)
      if (done === true) {
        if (wait > 0) await beginHold(lease, terms)
        return leaseWithLeave(lease, without(attempt))
      }
    } catch (error) {
      await withDeadline(engine, { wait: leaveTimeout }, without(attempt)).catch(() => undefined)
      await lease.release()
      throw error
    }
    await withDeadline(engine, { wait: leaveTimeout }, without(attempt)).catch(() => undefined)
    await lease.release()
    return undefined
  }

  /** The lease is released first: from then on it is not counted. The change that follows wakes the waiters. */
  function leaseWithLeave(lease: HeldLease, leave: (bounds: Deadline) => Promise<unknown>): Lease {
    const release = lease.release.bind(lease)
    lease.release = async () => {
      const outcome = await release()
      if (outcome !== 'already-released' && !engine.closed)
        await withDeadline(engine, { wait: leaveTimeout }, leave).catch(() => undefined)
      return outcome
    }
    return lease
  }

  return {
    name,
    async acquire(options = {}) {
      const from = engine.clock.now()
      const lease = await take(options)
      if (lease !== undefined) return lease
      const what = `${options.permits ?? 1} permits of pool ${quote(name)} were not free`
      throw new AcquireTimeoutError(name, engine.clock.now() - from, undefined, what)
    },
    async tryAcquire(options = {}) {
      checkSingle(options)
      return take({ ...options, wait: 0 })
    },
    async resize(permits) {
      whole(`permits of pool ${quote(name)}`, permits)
      await readOnce(engine, name, (bounds) => change(bounds, (state) => ({ ...state, size: permits })))
    },
    async close(options = {}) {
      checkWaitOptions('close()', options)
      const from = engine.clock.now()
      const wait = duration('wait', options.wait ?? defaults.wait, 0, true)
      const closing = (bounds: Deadline) => change(bounds, (state) => ({ ...state, closed: true }))
      await readOnce(engine, name, closing, { signal: options.signal })
      const rest = { ...options, wait: Math.max(0, wait - (engine.clock.now() - from)) }
      const ended = async (cell: Cell | undefined, bounds: Deadline) => {
        const before = holdersOfClosed(cell)
        if (before === undefined || before.length === 0) return before === undefined ? 'opened' : 'drained'
        if ((await removeDead(before, bounds)).length > 0) return undefined
        // Others may have been granted permits before the last of these left: remove these from the current state.
        const after = holdersOfClosed(await change(bounds, (state, kept) => (kept ? state : undefined)))
        if (after === undefined) return 'opened'
        return after.length === 0 ? 'drained' : undefined
      }
      const found = await answered(
        engine,
        name,
        rest,
        (bounds) => cellRef.waitUntil((cell) => ended(cell, bounds), bounds, checkInterval),
        restOfWait,
      )
      return found === 'drained'
    },
    async open() {
      await readOnce(engine, name, (bounds) => change(bounds, ({ size, line }) => ({ size, line })))
    },
    async delete() {
      let inUse = false
      await readOnce(engine, name, (bounds) =>
        cellRef.update(async (cell) => {
          const state = parsePool(cell)
          if (state === undefined) return undefined
          inUse = (await removeDead(state.line, bounds)).length > 0
          return inUse ? undefined : { value: undefined, keep: 0 }
        }, bounds),
      )
      return !inUse
    },
    size: () =>
      readOnce(engine, name, async (bounds) => parsePool(await cellRef.read(bounds))?.size ?? first),
    holders: () => readOnce(engine, name, (bounds) => readHolders(membership, cellRef, bounds)),
  }
}

async function readHolders(
  membership: Membership,
  cellRef: CellRef,
  bounds: Deadline,
): Promise<readonly PermitHolder[]> {
  let cell = await cellRef.read(bounds)
  let holders: readonly Holder[] = []
  for (let tries = 0; tries < maxReads; tries++) {
    holders = (await cellRef.retrying(bounds, () => cellRef.engine.driver.inspect(membership.lock.name)))
      .holders
    // Permits released in between may have been granted to others, who would be missing.
    const now = await cellRef.read(bounds)
    if (now?.version === cell?.version) break
    cell = now
  }
  const entries = new Map(parsePool(cell)?.line.map((entry) => [entry.attempt, entry]))
  return holders
    .filter(({ attempt, expiresIn }) => entries.get(attempt)?.in === true && expiresIn > 0)
    .sort((a, b) => a.token - b.token)
    .map(({ attempt, token, heldFor, note, client }) => ({
      permits: entries.get(attempt)?.take ?? 1,
      token,
      since: heldFor,
      ...(note !== undefined && { note }),
      ...(client !== undefined && { client }),
    }))
}

function whole(what: string, value: unknown): number {
  if (typeof value !== 'number') throw new TypeError(`${what} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 1 || value > maxPermits)
    throw new RangeError(`${what} must be an integer from 1 to ${maxPermits}, got ${value}`)
  return value
}
