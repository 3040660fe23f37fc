// A client and a server of our own with the proxy between them, both ends in sight.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { startProxy, type TcpProxy } from './proxy.js'

/** One end, and what it sees. */
export interface Side {
  readonly socket: Socket
  /** What arrived, and how it ended. */
  readonly seen: { text: string; end: 'open' | 'FIN' | 'RST' }
}

/** Notes what arrives at a socket, and how it ends. */
export function watch(socket: Socket): Side {
  const side: Side = { socket, seen: { text: '', end: 'open' } }
  socket.on('data', (chunk) => {
    side.seen.text += chunk
  })
  socket.on('end', () => {
    side.seen.end = 'FIN'
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    assert.equal(error.code, 'ECONNRESET')
    side.seen.end = 'RST'
  })
  return side
}

/** Both ends and what is between them. */
export interface Pair extends AsyncDisposable {
  readonly proxy: TcpProxy
  readonly client: Side
  readonly server: Side
}

/** Connects a client to a server through a new proxy. */
export async function pair(): Promise<Pair> {
  const listener = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const proxy = await startProxy({ port: (listener.address() as { port: number }).port })
  const socket = connect({ port: proxy.port, host: proxy.host, allowHalfOpen: true })
  const [[accepted]] = await Promise.all([once(listener, 'connection'), once(socket, 'connect')])
  const client = watch(socket)
  const server = watch(accepted as Socket)
  return {
    proxy,
    client,
    server,
    [Symbol.asyncDispose]: async () => {
      for (const side of [client, server]) side.socket.destroy()
      listener.close()
      await proxy.stop()
    },
  }
}
