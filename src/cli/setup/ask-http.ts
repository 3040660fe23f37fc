/** One HTTP request, for set-up checks. */
import { request as plain } from 'node:http'
import { request as encrypted } from 'node:https'
import { midway } from './clock.js'

export interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The midpoint between request and reply, in ms since 1970. */
  readonly middle: number
}

export interface Question {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly keys?: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | undefined
  /** Maximum silence of the server, in ms. Default 5000. */
  readonly timeout?: number
}

/** @throws Error if there is no reply in time */
export async function ask(url: string, question: Question): Promise<Answer> {
  const { answer, middle } = await midway(() => sent(url, question))
  return { ...answer, middle }
}

function sent(
  url: string,
  { method, headers = {}, body, keys, timeout = 5_000 }: Question,
): Promise<Omit<Answer, 'middle'>> {
  return new Promise((resolve, reject) => {
    const request = url.startsWith('https:') ? encrypted : plain
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const asked = request(url, {
      method,
      headers: { ...headers, ...length },
      agent: false,
      timeout: timeout,
      ...keys,
    })
    asked.on('timeout', () => asked.destroy(noAnswer(url, method, timeout)))
    asked.on('error', reject)
    asked.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          text,
          headers: response.headers,
        }),
      )
    })
    asked.end(body)
  })
}

function noAnswer(url: string, method: string, timeout: number): Error {
  return new Error(`no answer to ${method} ${new URL(url).pathname} within ${timeout / 1_000} s`)
}

/** Why servers do not answer, for the case that none does. */
export function recordSilence(): {
  /** For the rejection of a question to `host`; resolves with `host`. */
  of(host: string): (error: Error) => string
  text(): string
} {
  const reasons: string[] = []
  return {
    of: (host) => (error) => {
      reasons.push(`${host} (${error.message})`)
      return host
    },
    text: () => reasons.join(', '),
  }
}

/** The server's `Date` header, which counts whole seconds; undefined: none. */
export function parseDate({ headers }: Answer): number | undefined {
  const at = Date.parse(String(headers['date'] ?? ''))
  return Number.isNaN(at) ? undefined : at + 500
}
