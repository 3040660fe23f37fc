// A page over a real server on a free port, and what a browser would send to it.
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Served {
  readonly port: number
  readonly url: string
  close(): Promise<void>
}

/** Listens on 127.0.0.1. */
export async function serving(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Served> {
  return await listening(createServer(handler))
}

export async function listening(server: Server, wanted = 0): Promise<Served> {
  server.listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export interface Reply {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** One request with exactly these headers; `fetch` would not let a test choose Host or Sec-Fetch-Site. */
export async function send(
  url: string,
  how: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Reply> {
  const { method = 'GET', headers = {}, body } = how
  return await new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      )
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

export interface Stream extends AsyncDisposable {
  /** The next message of that kind that `wanted` accepts, or one that came already. */
  next<T>(event: string, wanted?: (data: T) => boolean): Promise<T>
  readonly ended: Promise<void>
}

/** Longest time until the wanted message comes, in ms. */
const longest = 120_000

/** An event stream, as EventSource reads it. */
export function stream(url: string, headers: Record<string, string> = {}): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const heard: { event: string; data: unknown }[] = []
    let news = () => {}
    const sent = request(url, { headers, agent: false }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`${url} gave ${response.statusCode}`))
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
        const parts = text.split('\n\n')
        text = parts.pop() ?? ''
        for (const part of parts) {
          const [, event = '', data = 'null'] = /^event: ([^\n]*)\ndata: ([^\n]*)$/.exec(part) ?? []
          if (event !== '') heard.push({ event, data: JSON.parse(data) })
        }
        news()
      })
      const ended = new Promise<void>((over) => response.on('close', over).on('error', () => over()))
      resolve({
        async next<T>(event: string, wanted: (data: T) => boolean = () => true) {
          const by = performance.now() + longest
          for (;;) {
            const at = heard.findIndex((one) => one.event === event && wanted(one.data as T))
            const [found] = at < 0 ? [] : heard.splice(0, at + 1).slice(-1)
            if (found !== undefined) return found.data as T
            await new Promise<void>((resume, fail) => {
              const late = () => fail(new Error(`no such ${event} within ${longest / 1_000} s`))
              const timer = setTimeout(late, by - performance.now())
              news = () => {
                clearTimeout(timer)
                resume()
              }
            })
          }
        },
        ended,
        async [Symbol.asyncDispose]() {
          sent.destroy()
          await ended
        },
      })
    })
    sent.on('error', (error) => reject(error))
    sent.end()
  })
}
