/** One request to a server that speaks HTTP, for looks at its set-up. */
import { request as plain } from 'node:http'
import { request as encrypted } from 'node:https'
import { midway } from './setup-clock.js'

export interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The middle of asking, in ms since 1970. */
  readonly middle: number
}

export interface Question {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly ca?: Buffer | undefined
}

/** How long a server may take, in ms. */
const patience = 5_000

/** @throws Error when there is no answer in time */
export async function ask(url: string, question: Question): Promise<Answer> {
  const { answer, middle } = await midway(() => sent(url, question))
  return { ...answer, middle }
}

function sent(url: string, { method, headers = {}, body, ca }: Question): Promise<Omit<Answer, 'middle'>> {
  return new Promise((resolve, reject) => {
    const request = url.startsWith('https:') ? encrypted : plain
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const asked = request(url, {
      method,
      headers: { ...headers, ...length },
      agent: false,
      timeout: patience,
      ...(ca !== undefined && { ca }),
    })
    asked.on('timeout', () => asked.destroy(new Error(`no answer within ${patience} ms`)))
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

/** What a server's `Date` header says, which counts whole seconds; undefined: nothing. */
export function dateOf({ headers }: Answer): number | undefined {
  const at = Date.parse(String(headers['date'] ?? ''))
  return Number.isNaN(at) ? undefined : at + 500
}
