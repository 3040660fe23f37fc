/** A piece of work with a deadline and a signal of its own, for what waits elsewhere than in the line of a lock. */
import type { Engine } from './engine.js'
import { BackendError } from './errors.js'
import { quote } from './name.js'
import { checkOptions, duration } from './options.js'

export interface WaitOptions {
  /** Longest time to wait in ms; `0`: look once, `Infinity`: for ever. @default that of the locks, else 30_000 */
  readonly wait?: number
  /** Cancels the wait, which then rejects with `signal.reason`. */
  readonly signal?: AbortSignal
}

/** What the work needs to know of its bounds. */
export interface Bounds {
  /** Aborts when the time is over, or with the caller's reason. */
  readonly signal: AbortSignal
  /** One look only. */
  readonly once: boolean
  /** Why the store could not be asked when it was asked last; the work goes on trying. */
  trouble: BackendError | undefined
}

/** The time was over first. */
export class Late {
  /** Milliseconds. */
  readonly waited: number
  readonly trouble: BackendError | undefined

  constructor(waited: number, trouble: BackendError | undefined) {
    this.waited = waited
    this.trouble = trouble
  }
}

/** How long a single look may take, in ms: a store that hangs is an error, not "not yet". */
const longestLook = 10_000

/**
 * Runs `work` within its bounds, and keeps the process alive meanwhile unless `ref` is false. Resolves with {@link Late} when the time was over first.
 * `also` ends the work as `signal` does; it is for us, such as the signal of a lease the work stands on.
 * @throws TypeError, RangeError for bad options; the reason of `signal` or `also`; what `work` throws
 */
export async function bounded<R>(
  engine: Engine,
  options: WaitOptions & { readonly ref?: boolean; readonly also?: AbortSignal },
  work: (bounds: Bounds) => Promise<R>,
): Promise<R | Late> {
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
  const bounds: Bounds = { signal: controller.signal, once: wait === 0, trouble: undefined }
  const aborted = ({ target }: Event) => controller.abort((target as AbortSignal).reason)
  signal?.addEventListener('abort', aborted)
  also?.addEventListener('abort', aborted)
  const limit = wait === 0 ? longestLook : wait
  const stop = clock.at(from + limit, () => controller.abort(over), { ref: options.ref ?? true })
  try {
    return await work(bounds)
  } catch (error) {
    if (error !== over) throw error
    if (wait === 0 && bounds.trouble !== undefined) throw bounds.trouble
    return new Late(clock.now() - from, bounds.trouble)
  } finally {
    stop()
    signal?.removeEventListener('abort', aborted)
    also?.removeEventListener('abort', aborted)
  }
}

/** One look at the store, which may take 10 s. @throws BackendError when it does not answer; the reason of `signal` */
export async function glance<R>(
  engine: Engine,
  name: string,
  work: (bounds: Bounds) => Promise<R>,
  signal?: AbortSignal,
): Promise<R> {
  const found = await bounded(engine, { wait: 0, ...(signal !== undefined && { signal }) }, work)
  if (!(found instanceof Late)) return found
  throw (
    found.trouble ??
    new BackendError(engine.driver.name, `gave no answer about ${quote(name)} for ${longestLook} ms`)
  )
}
