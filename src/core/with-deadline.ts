/** Runs work under a deadline and an AbortSignal of its own, for waits elsewhere than in the queue of a lock. */

import { type Duration, duration } from './duration.js'
import type { Engine } from './engine.js'
import { type BackendError, unavailable } from './errors.js'
import { checkKnown } from './known-options.js'
import { onAbort } from './on-abort.js'
import { checkOptions } from './options.js'
import { TimeLimit } from './time-limit.js'

export interface WaitOptions {
  /** Longest time to wait in ms; `0`: one read, `Infinity`: for ever. @default that of the locks, else 30_000 */
  readonly wait?: Duration
  /** Cancels the wait, which then rejects with `signal.reason`. */
  readonly signal?: AbortSignal
}

/** Checks the options of a wait that acquires nothing. @throws TypeError for anything but `wait` and `signal` */
export function checkWaitOptions(whose: string, given: WaitOptions = {}): WaitOptions {
  checkOptions(given, ['wait'])
  checkKnown(whose, given, ['wait', 'signal'])
  return given
}

/** What the work needs to know of its bounds. */
export interface Deadline {
  /** Aborts when the time is over, or with the caller's reason. */
  readonly signal: AbortSignal
  /** One read only. */
  readonly once: boolean
  /** Also a refusal that lasts is retried: somebody may fix the store in time. */
  readonly patient: boolean
  /** Why the store could not serve the last request; the work goes on trying. */
  error: BackendError | undefined
  /** Has the store replied yet? */
  answered: boolean
}

/** The time was over first. */
export class TimedOut {
  /** Milliseconds. */
  readonly waited: number
  readonly error: BackendError | undefined
  /** Has the store replied at all? */
  readonly answered: boolean

  constructor(waited: number, { error, answered }: Pick<Deadline, 'answered' | 'error'>) {
    this.waited = waited
    this.error = error
    this.answered = answered
  }

  /** The store is failing, or has not replied for `timeout` ms: whatever the caller waited for may be there. */
  isOutage(timeout: number): boolean {
    return this.error !== undefined || (!this.answered && this.waited >= timeout)
  }
}

/** How long a single read may take, in ms: a hanging store is an error, not "not yet". */
const readTimeout = 10_000

/**
 * Runs `work` within its bounds, and keeps the process alive meanwhile unless `ref` is false. Resolves with
 * {@link TimedOut} when the time was over first. The rest is for internal use: `also` ends the work as `signal` does, such
 * as the signal of a lease that the work depends on; `patient` is for work that follows what was done already.
 * @throws TypeError, RangeError for bad options; the reason of `signal` or `also`; what `work` throws
 */
export async function withDeadline<R>(
  engine: Engine,
  options: WaitOptions & { readonly ref?: boolean; readonly also?: AbortSignal; readonly patient?: boolean },
  work: (bounds: Deadline) => Promise<R>,
): Promise<R | TimedOut> {
  engine.assertOpen()
  checkOptions(options, ['wait'])
  const { clock } = engine
  const wait = duration('wait', options.wait ?? engine.defaults.wait, 0, true)
  const { signal, also } = options
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw new TypeError('signal must be an AbortSignal')
  signal?.throwIfAborted()
  also?.throwIfAborted()
  const from = clock.now()
  const controller = new AbortController()
  const over = new Error('the wait is over')
  const bounds: Deadline = {
    signal: controller.signal,
    once: wait === 0,
    patient: options.patient ?? false,
    error: undefined,
    answered: false,
  }
  const follow = (one: AbortSignal | undefined) => one && onAbort(one, () => controller.abort(one.reason))
  const [unlisten, unlistenAlso] = [follow(signal), follow(also)]
  const limit = wait === 0 ? readTimeout : wait
  const ends = new TimeLimit(clock, limit, () => controller.abort(over), {
    ref: options.ref ?? true,
  }).armSoon()
  try {
    return await work(bounds)
  } catch (error) {
    if (error !== over) throw error
    return new TimedOut(clock.now() - from, bounds)
  } finally {
    ends.stop()
    unlisten?.()
    unlistenAlso?.()
  }
}

/** In a wait in which the store has replied before, the time left may be too short for another reply, in ms. */
export const restOfWait = 1_000

/**
 * As `withDeadline`, for a wait for `name`.
 * @param timeout ms of silence that count as an outage: `restOfWait` where the store has replied in this wait before
 * @throws also BackendError with code `UNAVAILABLE` when the store could not serve the request
 */
export async function answered<R>(
  engine: Engine,
  name: string,
  options: Parameters<typeof withDeadline>[1],
  work: (bounds: Deadline) => Promise<R>,
  timeout = 0,
): Promise<R | TimedOut> {
  const found = await withDeadline(engine, options, work)
  if (found instanceof TimedOut && found.isOutage(timeout))
    throw unavailable(engine.driver.name, name, found.waited, found.error)
  return found
}

/**
 * One read of the store, which may take 10 s, or `wait` if that is less and not 0.
 * @throws BackendError when the store does not reply; the reason of `signal`
 */
export async function readOnce<R>(
  engine: Engine,
  name: string,
  work: (bounds: Deadline) => Promise<R>,
  { signal, wait = 0 }: { readonly signal?: AbortSignal | undefined; readonly wait?: number } = {},
): Promise<R> {
  const within = wait < readTimeout ? wait : 0
  const found = await answered(engine, name, { wait: within, ...(signal && { signal }) }, work)
  if (!(found instanceof TimedOut)) return found
  throw unavailable(engine.driver.name, name, found.waited, found.error)
}
