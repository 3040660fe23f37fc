/**
 * What the guards over HTTP share: which requests they admit, one at a time for each name, and for how long.
 *
 * Everything that a client can draw out is bounded, and done before its turn: its body is read first. A turn ends
 * with the handler, not with the connection, because a handler whose client has hung up may still be about to write.
 */
import { wallTime } from '../core/clock.js'
import { describe } from '../core/name.js'
import type { Fence } from './fence.js'
import { fenceHeader, parseFence } from './header.js'
import type { Fences, HttpGuardOptions } from './http.js'
import { checkGuard, type Limits } from './http-options.js'
import { type Rejection, rejections, toRejection } from './rejection.js'
import { SerialQueue, within } from './serial-queue.js'

/** The fence of each admitted request. */
const admitted = new WeakMap<object, Fence>()

/** The fence that the request carried, to guard its writes with; `undefined` when it had none. */
export function getFence(request: object): Fence | undefined {
  return admitted.get(request)
}

/** One request, as the gatekeeper sees it. */
export interface IncomingRequest<Request> {
  readonly request: Request
  readonly header: string | undefined
  /** Aborted when the client has gone. */
  readonly gone: AbortSignal | undefined
  /** Resolves once the whole body has arrived, or with `false` when it is longer than `maxBody` bytes. */
  body(maxBody: number, stop: AbortSignal): Promise<boolean>
  /** Closes the connection, because the handler takes too long. */
  cutOff(): void
}

/** Ends the turn, once. */
export type Leave = () => void

export class RequestGate<Request extends object> {
  readonly #fences: Fences
  readonly #name: (request: Request) => string
  readonly #given: HttpGuardOptions<Request>
  readonly #limits: Limits
  /** The requests that have their turn: one that comes by again, through a second `use` of this guard, need not wait for itself. */
  readonly #inside = new WeakSet<object>()
  readonly #turns = new SerialQueue()
  #warned = false

  constructor(options: HttpGuardOptions<Request>) {
    this.#limits = checkGuard(options)
    const { fences, name } = options
    this.#fences = fences
    this.#name = typeof name === 'string' ? () => name : name
    this.#given = options
  }

  /**
   * Resolves with the function to call once the handler is done, with the reason for a refusal, or with nothing when
   * the client has gone.
   */
  async enter(visit: IncomingRequest<Request>): Promise<Leave | Rejection | undefined> {
    const { request, header, gone } = visit
    if (header === undefined) return this.#given.optional ? () => undefined : rejections.missing(fenceHeader)
    const wanted = this.#nameOf(request)
    const fence = typeof wanted === 'object' ? wanted : this.#read(header, wanted)
    if ('status' in fence) return fence
    if (this.#inside.has(request)) return () => undefined
    const late = new AbortController()
    const stop = () => late.abort()
    const timer = after(this.#limits.wait, stop)
    gone?.addEventListener('abort', stop)
    if (gone?.aborted) stop()
    try {
      const entered = await this.#handle(visit, fence, late.signal)
      if (!gone?.aborted) return entered
      if (typeof entered === 'function') entered()
      return undefined
    } finally {
      clearTimeout(timer)
      gone?.removeEventListener('abort', stop)
    }
  }

  async #handle(
    visit: IncomingRequest<Request>,
    fence: Fence,
    late: AbortSignal,
  ): Promise<Leave | Rejection> {
    const { maxBody, limit } = this.#limits
    if (!(await visit.body(maxBody, late))) return rejections.tooLong(maxBody)
    if (late.aborted) return rejections.slow()
    const end = await this.#turns.enter(fence.name, late)
    if (end === undefined) return rejections.busy()
    const refusal = await this.#admit(fence, late, visit.gone)
    if (refusal !== undefined) {
      end()
      return refusal
    }
    admitted.set(visit.request, fence)
    this.#inside.add(visit.request)
    const { gone } = visit
    const leave = () => {
      clearTimeout(timer)
      gone?.removeEventListener('abort', unawaited)
      this.#inside.delete(visit.request)
      end()
    }
    const timer = after(limit, () => {
      leave()
      visit.cutOff()
    })
    // Nobody waits for the handler any more: it keeps no process alive whose server is closed. Workers have no `unref`.
    const unawaited = () => void timer?.unref?.()
    gone?.addEventListener('abort', unawaited)
    return leave
  }

  /** Only what decoding throws is the client's mistake. */
  #nameOf(request: Request): string | Rejection {
    try {
      const name = this.#name(request)
      if (typeof name === 'string' && name !== '') return name
      throw new TypeError(`name must return the lock's name for every request, got ${describe(name)}`)
    } catch (error) {
      if (error instanceof URIError) return rejections.badPath()
      throw error
    }
  }

  #read(header: string, wanted: string): Fence | Rejection {
    let fence: Fence
    try {
      fence = parseFence(header)
    } catch (error) {
      return rejections.bad((error as Error).message)
    }
    if (fence.name !== wanted) return rejections.wrong(wanted)
    // Tokens are revisions of a store or microseconds of its clock: none is far ahead of the present time.
    if (fence.token > (wallTime() + this.#limits.ahead) * 1000)
      return rejections.bad('no store has given such a token')
    return fence
  }

  async #admit(
    fence: Fence,
    late: AbortSignal,
    gone: AbortSignal | undefined,
  ): Promise<Rejection | undefined> {
    try {
      if (await within(this.#fences.admit(fence), late)) {
        this.#warned = false
        return undefined
      }
      if (!gone?.aborted) this.#tell(new Error('the fences did not answer in time'))
    } catch (error) {
      const refusal = toRejection(error)
      if (refusal?.status === 412) return refusal
      this.#tell(error)
    }
    return rejections.outage()
  }

  /** Warns once for each outage, unless there is an `onError`. */
  #tell(error: unknown): void {
    const { onError } = this.#given
    if (onError !== undefined) {
      try {
        return onError(error)
      } catch (thrown) {
        process.emitWarning(`onError of a guard over HTTP threw: ${String(thrown)}`, 'HoldfastWarning')
        return
      }
    }
    if (this.#warned) return
    this.#warned = true
    process.emitWarning(`the fences of a guard over HTTP cannot be asked: ${String(error)}`, {
      code: 'HOLDFAST_FENCES',
    })
  }
}

/** `Infinity`: never. */
function after(ms: number, fn: () => void): NodeJS.Timeout | undefined {
  if (ms > 2 ** 31 - 1) return undefined
  return setTimeout(fn, ms)
}
