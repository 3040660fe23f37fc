/** The floor of a request over HTTP: Node's own client, with persistent connections and prepared bodies. */
import { Agent, request } from 'node:http'

export class BareHttp {
  readonly #port: number
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: 64, scheduling: 'lifo' })

  constructor(port: number) {
    this.#port = port
  }

  send(method: 'POST' | 'PUT', path: string, body: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-length': Buffer.byteLength(body) }
      const sent = request(
        { host: '127.0.0.1', port: this.#port, method, path, agent: this.#agent, headers },
        (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (part: string) => {
            text += part
          })
          response.on('end', () => {
            if (response.statusCode === 200) resolve(text)
            else reject(new Error(`${path}: ${response.statusCode} ${text}`))
          })
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  }

  close(): void {
    this.#agent.destroy()
  }
}

/** A lock or its floor, in the form `figures` takes: acquires and releases a key. */
export type Pair = (key: string) => Promise<unknown>
