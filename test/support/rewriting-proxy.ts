// A proxy in front of a Redis server that replaces replies: a peer between the client and the server that is broken or hostile.
//
//   await using proxy = await startRewriting(server.port)
//   proxy.rewrite(([command]) => (command === 'EVALSHA' ? '+OK' : undefined))
//
// Requests reach the server as they are. A connection that has subscribed passes everything from then on. RESP 2 only.
import { connect, createServer, type Socket } from 'node:net'
import { parse } from './resp.js'
import { freePort } from './servers/ports.js'

/** @returns what to send instead, without the last line end; undefined: the server's own reply */
export type Rewrite = (command: readonly string[]) => string | undefined

export interface RewritingProxy extends AsyncDisposable {
  readonly port: number
  /** How many replies were replaced. */
  readonly replaced: number
  /** From now on; also for requests that were sent before and are not answered yet. */
  rewrite(how: Rewrite): void
  /** Sends this to every client that has subscribed, as if it came from the server. @returns to how many */
  push(wire: string): number
  stop(): Promise<void>
}

export async function startRewriting(target: number): Promise<RewritingProxy> {
  let how: Rewrite = () => undefined
  let replaced = 0
  const sockets = new Set<Socket>()
  const listening = new Set<Socket>()
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true })
    for (const one of [client, upstream]) {
      sockets.add(one)
      one.on('error', () => undefined)
      one.on('close', () => {
        client.destroy()
        upstream.destroy()
        sockets.delete(one)
        listening.delete(one)
      })
    }
    const asked: string[][] = []
    let subscribed = false
    const requests = splitter((bytes, value) => {
      asked.push((value as string[]).map(String))
      upstream.write(bytes)
    })
    const replies = splitter((bytes) => {
      const command = subscribed ? undefined : asked.shift()
      if (/^P?SUBSCRIBE$/i.test(command?.[0] ?? '')) subscribed = true
      const instead = command && how([(command[0] ?? '').toUpperCase(), ...command.slice(1)])
      if (instead !== undefined) replaced++
      client.write(instead === undefined ? bytes : `${instead}\r\n`)
      if (subscribed) listening.add(client)
    })
    client.on('data', requests)
    upstream.on('data', replies)
  })
  const port = await freePort()
  await new Promise<void>((resolve) => void server.listen({ port, host: '127.0.0.1' }, resolve))
  const stop = async () => {
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
    for (const one of sockets) one.destroy()
    await closed
  }
  return {
    port,
    get replaced() {
      return replaced
    },
    rewrite(next) {
      how = next
    },
    push(wire) {
      for (const client of listening) client.write(wire)
      return listening.size
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/** Calls back with each whole value of a stream: its bytes, and what they mean. */
function splitter(each: (bytes: Buffer, value: unknown) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0)
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    let at = 0
    for (let read = parse(rest, at); read; read = parse(rest, at)) {
      each(rest.subarray(at, read.next), read.reply)
      at = read.next
    }
    rest = rest.subarray(at)
  }
}
