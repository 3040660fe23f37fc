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
type Kept =
  | { readonly token: number; readonly ok: true; readonly value?: unknown }
  /** `brief`: only for callers that were waiting when it was written. */
  | { readonly token: number; readonly ok: false; readonly error: Told; readonly brief?: true }

interface Told {
  readonly name: string
  readonly message: string
  readonly code?: string
}

/** How long a caller that has run tries to keep its result while the store is failing, in ms; never longer than its lease. */
const longestKeeping = 10_000
/** How much of an error message of the run others get. */
const longestMessage = 2_000

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
  const box = new CellRef(engine, 'once', key)
  const lock = new EngineLock(engine, key, 'exclusive', noPermits('once()', exclusive))
  const found = await awaitTurn(engine, box, lock, terms)
  if (found.kept !== undefined) return opened<R>(found.kept)
  return run(box, found.lease, fn, { keep, keepError })
}

type Found = { readonly kept: Kept } | { readonly kept: undefined; readonly lease: HeldLease }

/** Whichever comes first: another caller's result, or the lock while there is none. */
async function awaitTurn(
  engine: Engine,
  box: CellRef,
  lock: EngineLock,
  terms: Omit<OnceOptions, 'keep' | 'keepError'>,
): Promise<Found> {
  const wait = duration('wait', terms.wait ?? engine.defaults.wait, 0, true)
  const from = engine.clock.now()
  // Of the one wait for the two reads and the lock. No wait but 0 becomes a single attempt, which may take ten seconds.
  const left = (least: number) => (wait === 0 ? 0 : Math.max(least, wait - (engine.clock.now() - from)))
  const read = (bounds: Deadline) => box.read(bounds).then(keptIn)
  const found = await readOnce(engine, box.key, read, { signal: terms.signal, wait })
  const before = found?.ok === false && found.brief ? found.token : undefined
  if (found !== undefined && before === undefined) return { kept: found }
  // Not an error meant only for callers that waited before this one came.
  const meant = (cell: Cell | undefined) => {
    const kept = keptIn(cell)
    return kept?.token === before ? undefined : kept
  }
  terms.signal?.throwIfAborted()
  const done = new AbortController()
  const { signal } = done
  const unlisten = terms.signal && onAbort(terms.signal, () => done.abort(terms.signal?.reason))
  const appeared = new Error('there is a result')
  let kept: Kept | undefined
  // In the background; the lock decides when the wait is over. If the watch fails, nobody is worse off than with the
  // lock alone.
  const watching = withDeadline(engine, { wait: Number.POSITIVE_INFINITY, signal }, async (bounds) => {
    kept = await box.waitUntil(meant, bounds)
    done.abort(appeared)
  }).catch(() => undefined)
  let lease: HeldLease
  try {
    lease = await lock.take({ ...terms, wait: left(1), signal })
  } catch (error) {
    if (error === appeared && kept !== undefined) return { kept }
    throw error
  } finally {
    unlisten?.()
    done.abort(new Error('no longer waiting'))
    await watching
  }
  return granted(box, lease, meant, { signal: terms.signal, wait: left(restOfWait) })
}

/** The last check, with the lock: what was kept meanwhile stands. */
async function granted(
  box: CellRef,
  lease: HeldLease,
  meant: (cell: Cell | undefined) => Kept | undefined,
  within: { readonly signal: AbortSignal | undefined; readonly wait: number },
): Promise<Found> {
  let kept: Kept | undefined
  try {
    kept = await readOnce(box.engine, box.key, (bounds) => box.read(bounds).then(meant), within)
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
  box: CellRef,
  lease: HeldLease,
  fn: (lease: Lease) => R | PromiseLike<R>,
  { keep, keepError }: { readonly keep: number; readonly keepError: number },
): Promise<R> {
  const { token } = lease
  let kept: Kept
  let thrown: unknown
  let result: R | undefined
  try {
    result = await runInside(lease, () => fn(lease))
    kept = { token, ok: true, ...(result !== undefined && { value: result }) }
    checkJson(box, kept)
  } catch (error) {
    thrown = error
    kept = { token, ok: false, error: told(error), ...(keepError === 0 && { brief: true }) }
  }
  const was = lease.isHeld
  const replaced = was ? await put(box, lease, kept, kept.ok ? keep : keepError) : 'late'
  const outcome = await lease.release()
  if (!kept.ok) throw thrown
  if (replaced === 'kept' && outcome !== 'lost') return opened<R>(kept)
  const lost = lease.hold.lost ?? new LeaseLostError(lease.name, token, 'taken')
  lost.result = result
  throw lost
}

/** `late`: a later run has kept its own, or the lease ran out before the store replied. */
async function put(box: CellRef, lease: HeldLease, kept: Kept, keep: number): Promise<'kept' | 'late'> {
  const wait = Math.min(lease.remaining(), longestKeeping)
  // Even an error that is not kept at all is delivered to those who watch.
  const replacement = { value: JSON.stringify(kept), keep: Math.max(keep, 1) }
  const done = await withDeadline(box.engine, { wait: Math.max(wait, 1) }, (bounds: Deadline) =>
    box.update((cell) => ((keptIn(cell)?.token ?? 0) >= lease.token ? undefined : replacement), bounds),
  )
  return !(done instanceof TimedOut) && keptIn(done)?.token === lease.token ? 'kept' : 'late'
}

function keptIn(cell: Cell | undefined): Kept | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as Kept)
}

/** What every caller gets, the one that ran it included: what JSON makes of it. */
function opened<R>(kept: Kept): R {
  if (kept.ok) return (kept.value === undefined ? undefined : JSON.parse(JSON.stringify(kept.value))) as R
  const { name, message, code } = kept.error
  const error = new Error(message)
  Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true })
  throw Object.assign(error, code === undefined ? {} : { code })
}

/** @throws TypeError, RangeError for a result that cannot be kept */
function checkJson(box: CellRef, kept: Kept): void {
  let text: string
  try {
    text = JSON.stringify(kept)
  } catch (cause) {
    throw new TypeError(`the result of once(${quote(box.key)}) is no JSON; return plain data`, { cause })
  }
  const bytes = Buffer.byteLength(text)
  if (bytes > 64 * 1024)
    throw new RangeError(
      `the result of once(${quote(box.key)}) is ${bytes} bytes long, the limit is 65536; keep it elsewhere and return its place`,
    )
}

function told(error: unknown): Told {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error).slice(0, longestMessage) }
  const { name, message } = error
  const { code } = error as { code?: unknown }
  const text = message.slice(0, longestMessage)
  return { name, message: text, ...(typeof code === 'string' && { code }) }
}
