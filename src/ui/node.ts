/** Between Node's HTTP server and the web's `Request` and `Response`. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { headers as ours } from './guard.js'

/** As Express, Connect and their middleware extend it. */
export type NodeRequest = IncomingMessage & {
  readonly originalUrl?: string
  /** What a body parser before us made of it. */
  readonly body?: unknown
}

/** The most bytes that a body may have. */
const maxBody = 16 * 1024

/** @throws RangeError for a body that is too long */
export async function toRequest(message: NodeRequest): Promise<Request> {
  const headers = new Headers()
  for (const [name, value] of Object.entries(message.headers)) {
    // Pseudo-headers of HTTP/2.
    if (name.startsWith(':')) continue
    if (typeof value === 'string') headers.set(name, value)
    else for (const one of value ?? []) headers.append(name, one)
  }
  const authority = message.headers[':authority']
  if (typeof authority === 'string') headers.set('host', authority)
  const method = message.method ?? 'GET'
  // The authority is not looked at: the Host header is.
  const url = `http://localhost${(message.originalUrl ?? message.url ?? '/').replace(/^[^/].*$/, '/')}`
  if (method === 'GET' || method === 'HEAD') return new Request(url, { method, headers })
  return new Request(url, { method, headers, body: await readBody(message) })
}

async function readBody(message: NodeRequest): Promise<string> {
  if (message.body !== undefined)
    return typeof message.body === 'string' ? message.body : JSON.stringify(message.body)
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of message) {
    size += (chunk as Buffer).length
    if (size > maxBody) throw new RangeError('the body is too long')
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Writes the answer; resolves when it has ended, or the browser is gone. */
export async function write(response: Response, to: ServerResponse): Promise<void> {
  const { body } = response
  // The browser can be gone before the answer is known. Its stream would never end.
  if (to.destroyed || to.writableEnded) return void (await body?.cancel())
  to.writeHead(response.status, Object.fromEntries(response.headers))
  if (body === null) return void to.end()
  if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true)
    return void to.end(Buffer.from(await response.arrayBuffer()))
  to.flushHeaders()
  const stream = Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0])
  await new Promise<void>((resolve) => {
    const over = () => {
      stream.destroy()
      to.destroy()
      resolve()
    }
    stream.on('error', over).on('close', over)
    to.on('close', over).on('error', over)
    stream.pipe(to)
  })
}

export function refuse(to: ServerResponse, status: number, words: string): void {
  if (to.destroyed || to.writableEnded) return
  // HTTP/2 has no such header.
  const connection = to.req.httpVersionMajor < 2 ? { connection: 'close' } : {}
  to.writeHead(status, { ...ours, 'content-type': 'text/plain; charset=utf-8', ...connection })
  to.end(`${words}\n`)
}
