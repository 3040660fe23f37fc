/**
 * Runs a function at most once at a time for a key, and gives its result to all callers.
 * Long because the ways in which a caller gets its answer are read together.
 *
 * ```
 *   kept already? ──yes──► that is the answer
 *        │ no
 *        ▼
 *   queue for the lock of the key, and watch the cell ──somebody's result appears──► that is the answer
 *        │ granted
 *        ▼
 *   kept meanwhile? ──yes──► release; that is the answer
 *        │ no
 *        ▼
 *   run ──► keep result or error, with the token ──► release
 * ```
 * A process that crashes midway leaves nothing in the cell; its lease ends, and the next in the queue runs, with a
 * greater token. A holder that has lost its lease cannot replace what a later one has kept: the greater token stays.
 */
import { EngineLock } from '../core/acquire.js'
import type { Cell } from '../core/cell.js'
import { CellRef } from '../core/cell-ref.js'
import { type Duration, duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { exclusive } from '../core/mode.js'
import { checkName, describe, quote } from '../core/name.js'
import { onAbort } from '../core/on-abort.js'
import { type AcquireOptions, checkOptions } from '../core/options.js'
import { runInside } from '../core/reentrancy.js'
import { type Deadline, readOnce, restOfWait, TimedOut, withDeadline } from '../core/with-deadline.js'
import { noPermits } from './no-permits.js'

export interface OnceOptions extends Omit<AcquireOptions, 'permits' | 'reentrant'> {
  /** How long all callers get the result, in ms, counted from the end of the run. `Infinity`: for ever. @default 60_000 */
  readonly keep?: Duration
  /** The same for an error; `0`: only callers that are waiting at that moment get it, as far as they look in time. @default `keep` */
  readonly keepError?: Duration
}

/** The value of the cell, as JSON. */
type StoredResult =
  | { readonly token: number; readonly ok: true; readonly value?: unknown }
  /** `brief`: only for callers that were waiting when it was written. */
  | { readonly token: number; readonly ok: false; readonly error: StoredError; readonly brief?: true }

interface StoredError {
  readonly name: string
  readonly message: string
  readonly code?: string
}

/** How long a caller that has run tries to keep its result while the store is failing, in ms; never longer than its lease. */
const maxKeep = 10_000
/** How much of an error message of the run others get. */
const maxMessage = 2_000

export async function once<R>(
  engine: Engine,
  key: string,
  fn: (lease: Lease) => R | PromiseLike<R>,
  options: OnceOptions = {},
): Promise<R> {
  checkName(key, 'key')
  if (typeof fn !== 'function') throw new TypeError(`once() takes a function, got ${describe(fn)}`)
  checkOptions(options, ['keep', 'wait'])
  const { keep: ofResult = 60_000, keepError: ofError = ofResult, ...terms } = options
  const keep = duration('keep', ofResult, 0, true)
  const keepError = duration('keepError', ofError, 0, true)
  const cellRef = new CellRef(engine, 'once', key)
  const lock = new EngineLock(engine, key, 'exclusive', noPermits('once()', exclusive))
  const found = await awaitResult(engine, cellRef, lock, terms)
  if (found.kept !== undefined) return unwrapResult<R>(found.kept)
  return run(cellRef, found.lease, fn, { keep, keepError })
}

type Found = { readonly kept: StoredResult } | { readonly kept: undefined; readonly lease: HeldLease }

/** Whichever comes first: another caller's result, or the lock while there is none. */
async function awaitResult(
  engine: Engine,
  cellRef: CellRef,
  lock: EngineLock,
  terms: Omit<OnceOptions, 'keep' | 'keepError'>,
): Promise<Found> {
  const wait = duration('wait', terms.wait ?? engine.defaults.wait, 0, true)
  const from = engine.clock.now()
  // One `wait` covers the two reads and the lock. Only 0 makes a single attempt, which may take ten seconds.
  const left = (least: number) => (wait === 0 ? 0 : Math.max(least, wait - (engine.clock.now() - from)))
  const read = (bounds: Deadline) => cellRef.read(bounds).then(parseStored)
  const found = await readOnce(engine, cellRef.key, read, { signal: terms.signal, wait })
  const before = found?.ok === false && found.brief ? found.token : undefined
  if (found !== undefined && before === undefined) return { kept: found }
  // But no error that was only for callers that were waiting before this one came.
  const parseApplicable = (cell: Cell | undefined) => {
    const kept = parseStored(cell)
    return kept?.token === before ? undefined : kept
  }
  terms.signal?.throwIfAborted()
  const done = new AbortController()
  const { signal } = done
  const unlisten = terms.signal && onAbort(terms.signal, () => done.abort(terms.signal?.reason))
  const appeared = new Error('there is a result')
  let kept: StoredResult | undefined
  // In the background; the lock decides when the wait is over. If the watch fails, the caller still waits for the
  // lock.
  const watching = withDeadline(engine, { wait: Number.POSITIVE_INFINITY, signal }, async (bounds) => {
    kept = await cellRef.waitUntil(parseApplicable, bounds)
    done.abort(appeared)
  }).catch(() => undefined)
  let lease: HeldLease
  try {
    lease = await lock.take({ ...terms, wait: left(1), signal, linger: 0 })
  } catch (error) {
    if (error === appeared && kept !== undefined) return { kept }
    throw error
  } finally {
    unlisten?.()
    done.abort(new Error('no longer waiting'))
    await watching
  }
  return granted(cellRef, lease, parseApplicable, { signal: terms.signal, wait: left(restOfWait) })
}

/** The last check, with the lock: a result kept meanwhile is used. */
async function granted(
  cellRef: CellRef,
  lease: HeldLease,
  parseApplicable: (cell: Cell | undefined) => StoredResult | undefined,
  within: { readonly signal: AbortSignal | undefined; readonly wait: number },
): Promise<Found> {
  let kept: StoredResult | undefined
  try {
    kept = await readOnce(
      cellRef.engine,
      cellRef.key,
      (bounds) => cellRef.read(bounds).then(parseApplicable),
      within,
    )
    // The store may have been slow to reply.
    if (kept === undefined) lease.assertHeld()
  } catch (error) {
    await lease.release()
    throw error
  }
  if (kept === undefined) return { kept, lease }
  await lease.release()
  return { kept }
}

async function run<R>(
  cellRef: CellRef,
  lease: HeldLease,
  fn: (lease: Lease) => R | PromiseLike<R>,
  { keep, keepError }: { readonly keep: number; readonly keepError: number },
): Promise<R> {
  const { token } = lease
  let kept: StoredResult
  let thrown: unknown
  let result: R | undefined
  try {
    result = await runInside(lease, () => fn(lease))
    kept = { token, ok: true, ...(result !== undefined && { value: result }) }
    checkJson(cellRef, kept)
  } catch (error) {
    thrown = error
    kept = { token, ok: false, error: toStoredError(error), ...(keepError === 0 && { brief: true }) }
  }
  const was = lease.isHeld
  const replaced = was ? await put(cellRef, lease, kept, kept.ok ? keep : keepError) : 'late'
  const outcome = await lease.release()
  if (!kept.ok) throw thrown
  if (replaced === 'kept' && outcome !== 'lost') return unwrapResult<R>(kept)
  const lost = lease.hold.lost ?? new LeaseLostError(lease.name, token, 'taken')
  lost.result = result
  throw lost
}

/** `late`: a later run has kept its own, or the lease ran out before the store replied. */
async function put(
  cellRef: CellRef,
  lease: HeldLease,
  kept: StoredResult,
  keep: number,
): Promise<'kept' | 'late'> {
  const wait = Math.min(lease.remaining(), maxKeep)
  // Callers that wait get the error even if it is not kept at all.
  const replacement = { value: JSON.stringify(kept), keep: Math.max(keep, 1) }
  const done = await withDeadline(
    cellRef.engine,
    { wait: Math.max(wait, 1), patient: true },
    (bounds: Deadline) =>
      cellRef.update(
        (cell) => ((parseStored(cell)?.token ?? 0) >= lease.token ? undefined : replacement),
        bounds,
      ),
  )
  return !(done instanceof TimedOut) && parseStored(done)?.token === lease.token ? 'kept' : 'late'
}

function parseStored(cell: Cell | undefined): StoredResult | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as StoredResult)
}

/** What every caller gets, the one that ran it included: what JSON makes of it. */
function unwrapResult<R>(kept: StoredResult): R {
  if (kept.ok) return (kept.value === undefined ? undefined : JSON.parse(JSON.stringify(kept.value))) as R
  const { name, message, code } = kept.error
  const error = new Error(message)
  Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true })
  throw Object.assign(error, code === undefined ? {} : { code })
}

/** @throws TypeError, RangeError for a result that cannot be kept */
function checkJson(cellRef: CellRef, kept: StoredResult): void {
  let text: string
  try {
    text = JSON.stringify(kept)
  } catch (cause) {
    throw new TypeError(`the result of once(${quote(cellRef.key)}) is no JSON; return plain data`, { cause })
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > 64 * 1024)
    throw new RangeError(
      `the result of once(${quote(cellRef.key)}) is ${bytes} bytes long, the limit is 65536; store it elsewhere and return a reference`,
    )
}

function toStoredError(error: unknown): StoredError {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error).slice(0, maxMessage) }
  const { name, message } = error
  const { code } = error as { code?: unknown }
  const text = message.slice(0, maxMessage)
  return { name, message: text, ...(typeof code === 'string' && { code }) }
}
