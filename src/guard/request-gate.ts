/**
 * What the guards over HTTP share: which requests they admit, one at a time for each name, and for how long.
 *
 * Everything that a client can draw out is bounded, and done before its turn: its body is read first. A turn ends
 * with the handler, not with the connection, because a handler whose client has hung up may still be about to write.
 */
import { wallTime } from '../core/clock.js'
import { describe } from '../core/name.js'
import { checkOptions } from '../core/options.js'
import type { Fence } from './fence.js'
import { fenceHeader, parseFence } from './header.js'
import type { Fences, HttpGuardOptions } from './http.js'
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

const known = ['fences', 'name', 'optional', 'ahead', 'maxBody', 'wait', 'limit', 'onError']

export class RequestGate<Request extends object> {
  readonly #fences: Fences
  readonly #name: (request: Request) => string
  readonly #given: HttpGuardOptions<Request>
  readonly #limits: {
    readonly ahead: number
    readonly maxBody: number
    readonly wait: number
    readonly limit: number
  }
  readonly #turns = new SerialQueue()
  #warned = false

  constructor(options: HttpGuardOptions<Request>) {
    if (typeof options?.fences?.admit !== 'function')
      throw new TypeError(
        'a guard over HTTP needs fences: memoryFences(), redisFences(client) or sqlFences(db)',
      )
    checkKnown(options)
    const { fences, name, ahead = 3_600_000, maxBody = 2 ** 20, wait = 10_000, limit = 60_000 } = options
    if (typeof name !== 'string' && typeof name !== 'function')
      throw new TypeError(
        `a guard over HTTP needs name: the lock that protects the resource, or a function that tells it of a request; got ${describe(name)}`,
      )
    for (const [what, value] of Object.entries({ ahead, maxBody, wait, limit }))
      if (typeof value !== 'number' || !(value >= 0))
        throw new RangeError(`${what} must be a number of at least 0, got ${describe(value)}`)
    const { optional = false, onError } = options
    if (typeof optional !== 'boolean')
      throw new TypeError(`optional must be true or false, got ${describe(optional)}`)
    if (onError !== undefined && typeof onError !== 'function')
      throw new TypeError(`onError must be a function, got ${describe(onError)}`)
    this.#fences = fences
    this.#name = typeof name === 'string' ? () => name : name
    this.#given = options
    this.#limits = { ahead, maxBody, wait, limit }
  }

  /**
   * Resolves with the function to call once the handler is done, with the reason for a refusal, or with nothing when
   * the client has gone.
   */
  async enter(visit: IncomingRequest<Request>): Promise<Leave | Rejection | undefined> {
    const { request, header, gone } = visit
    if (header === undefined) return this.#given.optional ? () => undefined : rejections.missing(fenceHeader)
    const fence = this.#read(header, this.#name(request))
    if ('status' in fence) return fence
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
    const timer = after(limit, () => {
      end()
      visit.cutOff()
    })
    return () => {
      clearTimeout(timer)
      end()
    }
  }

  #read(header: string, wanted: string): Fence | Rejection {
    if (typeof wanted !== 'string' || wanted === '')
      throw new TypeError(`name must tell the lock's name for every request, got ${describe(wanted)}`)
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

function checkKnown(options: object): void {
  checkOptions(options, [])
  for (const key of Object.keys(options))
    if (!known.includes(key))
      throw new TypeError(`a guard over HTTP has no option ${describe(key)}; known are ${known.join(', ')}`)
}

/** `Infinity`: never. */
function after(ms: number, fn: () => void): NodeJS.Timeout | undefined {
  if (ms > 2 ** 31 - 1) return undefined
  return setTimeout(fn, ms)
}
