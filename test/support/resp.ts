// A raw Redis connection, so that tests of servers and of the wire depend on no client library.
import { connect, type Socket } from 'node:net'

/** What Redis answers. An error inside an array (EXEC) is a value; an error as the whole reply rejects. */
export type Reply = string | number | null | RespError | Reply[]

/** An error reply; the message is Redis' own line: `WRONGTYPE Operation against ...`. */
export class RespError extends Error {
  override readonly name = 'RespError'
}

/** One connection. Calls are pipelined in the order they are made; a broken connection rejects all that is pending. */
export interface Resp extends AsyncDisposable {
  readonly socket: Socket
  /** What arrived without being asked for: the messages of a subscription. */
  readonly unasked: readonly Reply[]
  send(...args: readonly (string | number)[]): Promise<Reply>
  close(): void
}

/** Connects; rejects if nobody listens. */
export async function connectResp(port: number, host = '127.0.0.1'): Promise<Resp> {
  const socket = connect({ port, host, noDelay: true })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.once('connect', () => resolve(void socket.off('error', reject)))
  })
  const pending: { resolve: (reply: Reply) => void; reject: (error: Error) => void }[] = []
  const unasked: Reply[] = []
  let rest = Buffer.alloc(0)
  let broken: Error | undefined

  socket.on('data', (chunk) => {
    rest = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    let at = 0
    for (let read = parse(rest, at); read; read = parse(rest, at)) {
      at = read.next
      const caller = pending.shift()
      if (!caller) unasked.push(read.reply)
      else if (read.reply instanceof RespError) caller.reject(read.reply)
      else caller.resolve(read.reply)
    }
    rest = rest.subarray(at)
  })
  socket.on('error', (error) => {
    broken = error
  })
  socket.on('close', () => {
    broken ??= new Error(`the connection to ${host}:${port} was closed`)
    for (const caller of pending.splice(0)) caller.reject(broken)
  })

  const send = (...args: readonly (string | number)[]): Promise<Reply> => {
    if (broken) return Promise.reject(broken)
    const words = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`)
    return new Promise((resolve, reject) => {
      pending.push({ resolve, reject })
      socket.write(`*${args.length}\r\n${words.join('')}`)
    })
  }
  const close = (): void => void socket.destroy()
  return { socket, unasked, send, close, [Symbol.asyncDispose]: async () => close() }
}

/** The reply that begins at `at`, and where the next one does; undefined: it has not arrived whole. */
export function parse(buffer: Buffer, at: number): { reply: Reply; next: number } | undefined {
  const end = buffer.indexOf('\r\n', at)
  if (end < 0) return undefined
  const line = buffer.toString('utf8', at + 1, end)
  let next = end + 2
  switch (String.fromCharCode(buffer[at] ?? 0)) {
    case '+':
      return { reply: line, next }
    case '-':
      return { reply: new RespError(line), next }
    case ':':
      return { reply: Number(line), next }
    case '$': {
      if (line === '-1') return { reply: null, next }
      const stop = next + Number(line)
      return buffer.length < stop + 2
        ? undefined
        : { reply: buffer.toString('utf8', next, stop), next: stop + 2 }
    }
    case '*': {
      if (line === '-1') return { reply: null, next }
      const items: Reply[] = []
      while (items.length < Number(line)) {
        const item = parse(buffer, next)
        if (!item) return undefined
        items.push(item.reply)
        next = item.next
      }
      return { reply: items, next }
    }
    default:
      throw new Error(`not a Redis reply: ${buffer.toString('latin1', at, at + 40)}`)
  }
}
