/**
 * One address of a store that speaks HTTP. Uses Node's own client: connections are reused, and an idle one does not keep the
 * process alive. Deadlines are on our clock; a streamed response is read line by line as it arrives.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { SecureContextOptions } from 'node:tls'
import type { Clock } from '../../core/clock.js'
import { notSentCodes } from './not-sent-codes.js'

/** The keys and names that Node's `tls.connect` takes. */
export interface TlsOptions
  extends Pick<SecureContextOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'pfx' | 'minVersion'> {
  /** The name the certificate must have, if it differs from the host's. */
  readonly servername?: string
  /** `false` accepts any certificate: a man in the middle can then read everything and grant locks. Default `true`. */
  readonly rejectUnauthorized?: boolean
}

export interface HttpRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Called when the request is sent, with a function that aborts it. */
  readonly begun?: (end: () => void) => void
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  /** Clock reading before the request left. */
  readonly sent: number
  /** The request was sent before, on a connection that broke: the store may have executed it, or may do so later. */
  readonly repeated: boolean
}

/** No answer. `left` false: the request never reached the store, so it had no effect. */
export class NoResponseError extends Error {
  readonly wasSent: boolean
  constructor(message: string, wasSent: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.wasSent = wasSent
  }
}

export class HttpHost {
  readonly url: URL
  readonly #clock: Clock
  readonly #agent: HttpAgent
  readonly #secure: boolean
  #closed = false

  constructor(url: URL, clock: Clock, tls: TlsOptions | undefined) {
    this.url = url
    this.#clock = clock
    this.#secure = url.protocol === 'https:'
    const options = { keepAlive: true, maxFreeSockets: 64, scheduling: 'lifo' } as const
    this.#agent = this.#secure ? new HttpsAgent({ ...options, ...tls }) : new HttpAgent(options)
  }

  /** @throws NoResponseError when no answer comes within `timeout` ms, or the connection breaks */
  async send(options: HttpRequest, timeout: number): Promise<HttpResponse> {
    const sent = this.#clock.now()
    try {
      return await this.#once(options, sent, timeout)
    } catch (error) {
      // The store closed a kept-alive connection just as we reused it: that says nothing about the store's health.
      // Closing ends the connections in use, too.
      if (!(error instanceof StaleConnection) || this.#closed) throw error
      const again = await this.#once(options, sent, timeout).catch((last: NoResponseError) => {
        // The first request may have arrived all the same.
        throw new NoResponseError(last.message, true, last.cause)
      })
      return { ...again, repeated: true }
    }
  }

  #once(options: HttpRequest, sent: number, timeout: number): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const request = this.#open(options)
      let late = false
      let over = false
      options.begun?.(() => request.destroy(new Error('was ended by this process')))
      const giveUp = () => {
        if (over) return
        late = true
        request.destroy()
      }
      // After a stall the answer may be unread in the socket: `soon` runs after it is read.
      const disarm = this.#clock.at(sent + timeout, () => this.#clock.soon(giveUp))
      const stop = () => {
        over = true
        disarm()
      }
      const fail = (error: Error) => {
        stop()
        const why = late ? `gave no answer within ${Math.round(timeout)} ms` : error.message
        const code = (error as NodeJS.ErrnoException).code ?? ''
        if (!late && request.reusedSocket && (code === 'ECONNRESET' || code === 'EPIPE'))
          reject(new StaleConnection(`${this.url.host} ${why}`, true, error))
        else reject(new NoResponseError(`${this.url.host} ${why}`, late || !notSentCodes.has(code), error))
      }
      request.on('error', fail)
      request.on('response', (response) => {
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => parts.push(part))
        response.on('error', fail)
        response.on('end', () => {
          stop()
          const { statusCode: status = 0, headers } = response
          resolve({ status, headers, text: Buffer.concat(parts).toString(), sent, repeated: false })
        })
      })
      request.end(options.body)
    })
  }

  /**
   * Streams a response: calls `line` for each line as it arrives. Calls `ended` once, when the store or the network ends the
   * response; not after the returned function has ended it from here.
   */
  stream(
    options: HttpRequest,
    line: (text: string, status: number) => void,
    ended: (error: Error | undefined) => void,
  ): () => void {
    const request = this.#open(options)
    let over = false
    const end = (error: Error | undefined) => {
      if (over) return
      over = true
      ended(error)
    }
    request.on('error', end)
    request.on('response', (response) => {
      lines(response, (text) => {
        if (!over) line(text, response.statusCode ?? 0)
      })
      response.on('error', end)
      response.on('close', () => end(undefined))
    })
    request.end(options.body)
    return () => {
      over = true
      request.destroy()
    }
  }

  close(): void {
    this.#closed = true
    this.#agent.destroy()
  }

  #open({ method, path, headers, body }: HttpRequest): ClientRequest {
    const { hostname, port } = this.url
    const open = this.#secure ? httpsRequest : httpRequest
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    return open({
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: port === '' ? (this.#secure ? 443 : 80) : port,
      method,
      path,
      agent: this.#agent,
      headers: { ...headers, ...length },
    })
  }
}

/** Retried once; twice in a row it counts as an ordinary NoResponseError. */
class StaleConnection extends NoResponseError {}

function lines(response: IncomingMessage, line: (text: string) => void): void {
  let rest = ''
  response.setEncoding('utf8')
  response.on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    for (const part of parts) if (part !== '') line(part)
  })
  response.on('end', () => {
    if (rest !== '') line(rest)
  })
}
