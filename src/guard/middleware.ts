/** The guard over HTTP for Fetch handlers (Deno, Bun, Workers, Next.js), Hono, and Express or plain Node servers. */
import { fenceHeader } from './header.js'
import { Gatekeeper, type HttpGuardOptions, type Refusal, refusalOf } from './http.js'

export type FetchHandler = (request: Request) => Response | Promise<Response>

/** Wraps a handler of Fetch requests. Answers 400, 412 or 428 in its place. @throws TypeError without fences */
export function guardFetch(handler: FetchHandler, options: HttpGuardOptions<Request>): FetchHandler {
  const keeper = new Gatekeeper(options)
  return async (request) => {
    const entered = await keeper.enter(request, request.headers.get(fenceHeader) ?? undefined)
    if (typeof entered !== 'function') return responseOf(entered)
    try {
      return await handler(request)
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal === undefined) throw error
      return responseOf(refusal)
    } finally {
      entered()
    }
  }
}

/** As much of Hono's context as is needed. */
export interface HonoContext {
  readonly req: { readonly raw: Request }
  res: Response
  readonly error?: Error | undefined
}

/** Middleware for Hono: `app.put('/invoices/:id', honoGuard({ fences }), handler)`; the fence is `fenceOf(c.req.raw)`. */
export function honoGuard(
  options: HttpGuardOptions<Request>,
): (c: HonoContext, next: () => Promise<void>) => Promise<Response | undefined> {
  const keeper = new Gatekeeper(options)
  return async (c, next) => {
    const entered = await keeper.enter(c.req.raw, c.req.raw.headers.get(fenceHeader) ?? undefined)
    if (typeof entered !== 'function') return responseOf(entered)
    try {
      await next()
      // Hono has turned what the handler threw into an answer by then, and keeps the error.
      const refusal = refusalOf(c.error)
      if (refusal !== undefined) c.res = responseOf(refusal)
    } finally {
      entered()
    }
    return undefined
  }
}

/** As much of a request and response of Node, Express or Connect as is needed. */
export interface NodeRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}
export interface NodeResponse {
  statusCode: number
  readonly headersSent: boolean
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
  once(event: 'close', listener: () => void): unknown
}
export type Next = (error?: unknown) => void

/**
 * Middleware for Express: `app.put('/invoices/:id', expressGuard({ fences }), handler)`. The next request of the same lock is let
 * in when the response is closed: handle the write before answering. Add `expressStale` after the routes.
 */
export function expressGuard<R extends NodeRequest>(
  options: HttpGuardOptions<R>,
): (request: R, response: NodeResponse, next: Next) => void {
  const keeper = new Gatekeeper(options)
  return (request, response, next) => {
    const header = request.headers[fenceHeader]
    keeper.enter(request, Array.isArray(header) ? header.join(', ') : header).then((entered) => {
      if (typeof entered !== 'function') return answer(response, entered)
      response.once('close', entered)
      next()
    }, next)
  }
}

/** Error handler for Express: answers 412 to the StaleTokenError of a guarded write, and passes every other error on. */
export function expressStale(
  error: unknown,
  _request: NodeRequest,
  response: NodeResponse,
  next: Next,
): void {
  const refusal = refusalOf(error)
  if (refusal === undefined || response.headersSent) next(error)
  else answer(response, refusal)
}

function answer(response: NodeResponse, { status, body }: Refusal): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(body))
}

function responseOf({ status, body }: Refusal): Response {
  return Response.json(body, { status })
}
