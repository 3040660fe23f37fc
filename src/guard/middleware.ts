/** The guard over HTTP for Fetch handlers (Deno, Bun, Workers, Next.js), Hono, and Express or plain Node servers. */
import { fromFetchRequest } from './fetch-request.js'
import type { HttpGuardOptions } from './http.js'
import { fromNodeRequest, giveUp, hangUp, onAnswered } from './node-request.js'
import { type Rejection, rejections, toRejection } from './rejection.js'
import { RequestGate } from './request-gate.js'

export type FetchHandler = (request: Request) => Response | Promise<Response>

/**
 * Wraps a handler of Fetch requests. Answers 400, 408, 409, 412, 413, 428 or 503 in its place. What the server passes beside the
 * request reaches the handler: the parameters of a route in Next.js, the bindings of a Worker, the connection in Deno and Bun.
 * @throws TypeError, RangeError for bad options
 */
export function guardFetch<R extends Request = Request, More extends readonly unknown[] = []>(
  handler: (request: R, ...more: More) => Response | Promise<Response>,
  options: HttpGuardOptions<R>,
): (request: R, ...more: More) => Promise<Response> {
  const keeper = new RequestGate(options)
  return async (request, ...more) => {
    const late = new LateError()
    const entered = await keeper.enter(fromFetchRequest(request, late.cutOff))
    if (typeof entered !== 'function') return toResponse(entered ?? rejections.busy())
    try {
      return await Promise.race([handler(request, ...more), late.refused])
    } catch (error) {
      const refusal = toRejection(error)
      if (refusal === undefined) throw error
      return toResponse(refusal)
    } finally {
      entered()
    }
  }
}

/** The part of Hono's context used here. */
export interface HonoContext {
  readonly req: { readonly raw: Request }
  res: Response
  readonly error?: Error | undefined
}

/**
 * Middleware for Hono: `app.put('/invoices/:id', honoGuard({ fences, name }), handler)`; the fence is
 * `getFence(c.req.raw)`. Answers and throws as `guardFetch`.
 */
export function honoGuard(
  options: HttpGuardOptions<Request>,
): (c: HonoContext, next: () => Promise<void>) => Promise<Response | undefined> {
  const keeper = new RequestGate(options)
  return async (c, next) => {
    const late = new LateError()
    const entered = await keeper.enter(fromFetchRequest(c.req.raw, late.cutOff))
    if (typeof entered !== 'function') return toResponse(entered ?? rejections.busy())
    try {
      const refused = await Promise.race([next().then(() => undefined), late.refused])
      if (refused !== undefined) return refused
      // Hono has turned the handler's error into a response by then, and keeps the error.
      const refusal = toRejection(c.error)
      if (refusal !== undefined) c.res = toResponse(refusal)
    } finally {
      entered()
    }
    return undefined
  }
}

/** Resolves with a response in the handler's place, once the handler took too long. */
class LateError {
  cutOff: () => void = () => undefined
  readonly refused = new Promise<Response>((resolve) => {
    this.cutOff = () => resolve(toResponse(rejections.late()))
  })
}

/**
 * The part of a request and response of Node, Express or Connect used here. The optional members exist on Node;
 * `stream` only over HTTP/2 (`node:http2`).
 */
export interface NodeRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly complete?: boolean
  readonly destroyed?: boolean
  readonly readableDidRead?: boolean
  readonly readableLength?: number
  readonly stream?: { readonly readableEnded: boolean; readonly aborted: boolean } | undefined
  read?(): unknown
  unshift?(part: unknown): void
  on?(event: 'readable' | 'close', listener: () => void): unknown
  off?(event: 'readable' | 'close', listener: () => void): unknown
}
export interface NodeResponse {
  statusCode: number
  readonly headersSent: boolean
  readonly destroyed?: boolean
  readonly closed?: boolean
  readonly stream?: { readonly destroyed: boolean } | undefined
  setHeader(name: string, value: string): unknown
  // biome-ignore lint/suspicious/noExplicitAny: it is called with whatever the handler gives
  end: (...given: any[]) => any
  once(event: 'close', listener: () => void): unknown
  on?(event: 'pipe' | 'unpipe', listener: (source: unknown) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as `end`
  destroy?: (...given: any[]) => any
}
export type Next = (error?: unknown) => void

/**
 * Middleware for Express: `app.put('/invoices/:id', expressGuard({ fences, name }), handler)`. The next request of
 * the same lock is admitted when the handler has ended the response, even if its client has hung up meanwhile. A
 * stream that is piped into the response ends with the connection. Answers as `guardFetch`; add `expressStale` after
 * the routes: it also ends the turn of a handler that fails after its response has begun.
 * @throws TypeError, RangeError for bad options
 */
export function expressGuard<R extends NodeRequest>(
  options: HttpGuardOptions<R>,
): (request: R, response: NodeResponse, next: Next) => void {
  const keeper = new RequestGate(options)
  return (request, response, next) => {
    const gone = hangUp(response)
    keeper.enter(fromNodeRequest(request, response, gone)).then((entered) => {
      if (entered === undefined) return
      if (typeof entered !== 'function') return answer(response, entered)
      onAnswered(response, entered)
      next()
    }, next)
  }
}

/**
 * Error handler for Express: answers 412 to the StaleTokenError of a guarded write, 409 to a lock that was not free,
 * 503 to a store that did not reply, to a closed pool and to too many waiters, and passes every other error on.
 */
export function expressStale(
  error: unknown,
  _request: NodeRequest,
  response: NodeResponse,
  next: Next,
): void {
  const refusal = toRejection(error)
  if (response.headersSent) giveUp(response)
  if (refusal === undefined || response.headersSent) next(error)
  else answer(response, refusal)
}

function answer(response: NodeResponse, rejection: Rejection): void {
  const { status, body } = rejection
  response.statusCode = status
  for (const [name, value] of Object.entries(headersOf(rejection))) response.setHeader(name, value)
  // Does not wait for the rest of an unwanted body. HTTP/2 has no such header.
  if ((status === 408 || status === 413) && response.stream === undefined)
    response.setHeader('connection', 'close')
  response.end(JSON.stringify(body))
}

function toResponse(rejection: Rejection): Response {
  return Response.json(rejection.body, { status: rejection.status, headers: headersOf(rejection) })
}

function headersOf({ retryAfter }: Rejection): Record<string, string> {
  const type = { 'content-type': 'application/json' }
  return retryAfter === undefined ? type : { ...type, 'retry-after': String(retryAfter) }
}
