/** Answers health probes: 200 while the store can grant, else 503, with JSON that names no host, lock or process. */
import type { Health, HealthOptions, Locks } from 'holdfast'

/** What is sent. Times in ms. */
export interface HealthReport {
  readonly status: Health['status']
  readonly driver: string
  readonly took: number
  readonly held: number
  readonly doubtful: number
  readonly waiting: number
  /** Why it is not `ok`, without hosts and messages of the store. */
  readonly error?: string
}

/** As much of `http.ServerResponse`, and of Express's, as is used. */
export interface NodeResponse {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
}
/** As much of a reply of Fastify as is used. */
export interface FastifyReply {
  code(status: number): { header(name: string, value: string): { send(body: string): unknown } }
}

type Source = Pick<Locks, 'health'>

/** The report and its HTTP status. */
export async function healthReport(
  locks: Source,
  options?: HealthOptions,
): Promise<{ readonly code: 200 | 503; readonly report: HealthReport }> {
  const { ok, status, driver, took, held, doubtful, waiting, error } = await locks.health(options)
  const report = { status, driver, took: Math.round(took), held, doubtful, waiting }
  if (ok) return { code: 200, report }
  return { code: 503, report: error === undefined ? report : { ...report, error: error.publicMessage } }
}

const headers = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' } as const

/** For `node:http` and Express: `app.get('/healthz', healthz(locks))`. */
export function healthz(
  locks: Source,
  options?: HealthOptions,
): (request: unknown, response: NodeResponse) => Promise<void> {
  return async (_request, response) => {
    const { code, report } = await healthReport(locks, options)
    response.statusCode = code
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    // Node sends no body in reply to HEAD.
    response.end(JSON.stringify(report))
  }
}

/** For Fastify: `app.get('/healthz', fastifyHealthz(locks))`. */
export function fastifyHealthz(
  locks: Source,
  options?: HealthOptions,
): (request: unknown, reply: FastifyReply) => Promise<unknown> {
  return async (_request, reply) => {
    const { code, report } = await healthReport(locks, options)
    return reply
      .code(code)
      .header('cache-control', headers['cache-control'])
      .send(report as never)
  }
}

/** For Hono and every router that takes a function to a `Response`: `app.get('/healthz', honoHealthz(locks))`. */
export function honoHealthz(locks: Source, options?: HealthOptions): () => Promise<Response> {
  return async () => {
    const { code, report } = await healthReport(locks, options)
    return new Response(JSON.stringify(report), { status: code, headers })
  }
}
