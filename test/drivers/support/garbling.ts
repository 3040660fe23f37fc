// Stands before a store that speaks HTTP, and replaces the answers to some requests by what a broken proxy makes of them.
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Garbling {
  readonly url: string
  /** From now on: what becomes of the text of an answer to a path; of a streamed one, of each line as it comes. */
  garble(how: (path: string, text: string) => string): void
  stop(): Promise<void>
}

/** What may come instead of an answer. */
export const garbled: Readonly<Record<string, (text: string) => string>> = {
  'cut off': (text) => text.slice(0, text.length / 2),
  'an empty object': () => '{}',
  'a success without anything': () => '{"succeeded":true,"header":{},"Results":[{"KV":{}}]}',
  'a page': () => '<html>welcome</html>',
  nothing: () => '',
  null: () => 'null',
}

async function stream(
  from: IncomingMessage,
  to: ServerResponse,
  make: (line: string) => string,
): Promise<void> {
  to.writeHead(from.statusCode ?? 0)
  to.on('close', () => from.destroy())
  let rest = ''
  for await (const part of from) {
    const lines = (rest + part).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) to.write(`${make(line)}\n`)
  }
  to.end()
}

export async function startGarbling(target: string): Promise<Garbling> {
  let how = (_path: string, text: string): string => text
  const pass = async (asked: IncomingMessage, answer: ServerResponse): Promise<void> => {
    const { method, headers, url: path = '/' } = asked
    const onward = request(new URL(path, target), { method, headers })
    asked.pipe(onward)
    const [got] = (await once(onward, 'response')) as [IncomingMessage]
    if (path === '/v3/watch') return stream(got, answer, (line) => how(path, line))
    const parts: Buffer[] = []
    for await (const part of got) parts.push(part as Buffer)
    const { 'transfer-encoding': chunked, 'content-length': length, ...rest } = got.headers
    answer.writeHead(got.statusCode ?? 0, rest).end(how(path, Buffer.concat(parts).toString()))
  }
  const server = createServer((asked, answer) => void pass(asked, answer).catch(() => answer.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    garble(next) {
      how = next
    },
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
