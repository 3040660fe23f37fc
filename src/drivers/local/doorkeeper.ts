/** One connection of the broker: who may come in, whole lines to calls, and answers to whole packets. */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Broker } from './broker.js'
import type { Client, Connection } from './clients.js'
import { messageOf } from './home.js'
import { type Call, type Greeting, lineReader, proofOf, version, type Welcome } from './protocol.js'

/** A client that reads nothing while this many characters wait for it is cut off; it will find out and come back. */
const mostUnread = 16 * 1024 * 1024

export interface Door {
  readonly broker: Broker
  /** What both ends prove that they know, as it stands in the home file now. @throws as fs does */
  readonly secret: () => string
}

export function serve(socket: Socket, { broker, secret }: Door): void {
  let out = ''
  let nonces: { readonly secret: string; readonly theirs: string; readonly ours: string } | undefined
  let client: Client | undefined
  let bye = false

  function flush(): void {
    if (!socket.destroyed) socket.write(out)
    out = ''
  }

  /** All that is said in one go leaves in one packet. */
  function send(message: object): void {
    if (out === '') queueMicrotask(flush)
    out += `${JSON.stringify(message)}\n`
    if (out.length + socket.writableLength > mostUnread) socket.destroy()
  }

  const connection: Connection = { send, end: () => socket.destroySoon() }

  function refuse(why: string): void {
    socket.end(`${JSON.stringify(['no', why] satisfies Welcome)}\n`)
  }

  function greet(message: Greeting): void {
    switch (message[0]) {
      case 'hello': {
        if (message[1] !== version) {
          return refuse(
            `it speaks version ${version} of the protocol, this process speaks ${message[1]}; use one release of holdfast`,
          )
        }
        nonces = { secret: secret(), theirs: message[2], ours: randomBytes(16).toString('hex') }
        const proof = proofOf('broker', nonces.secret, nonces.theirs, nonces.ours)
        return send(['hello', version, nonces.ours, proof, process.pid] satisfies Welcome)
      }
      case 'enter': {
        const proof = nonces && proofOf('client', nonces.secret, nonces.theirs, nonces.ours)
        if (proof === undefined || !same(proof, message[1]))
          return refuse('this process has not shown that it can read the home file')
        const entered = broker.enter(connection, message[2])
        client = entered.client
        return send(['entered', entered.gone] satisfies Welcome)
      }
      case 'bye':
        bye = true
        return
    }
  }

  const read = lineReader<Greeting | Call>((message) => {
    if (typeof message[0] !== 'number') greet(message as Greeting)
    else if (client === undefined) refuse('a call came before its greeting')
    // What an earlier connection of a client still brings is from before it said anew what it wants.
    else if (client.connection === connection) broker.call(client, message as Call)
  })

  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    try {
      read(chunk)
    } catch (error) {
      refuse(messageOf(error))
    }
  })
  // What goes wrong with a connection shows as its end.
  socket.on('error', () => undefined)
  socket.on('close', () => {
    if (client !== undefined) broker.left(client, connection, bye)
  })
}

function same(a: string, b: unknown): boolean {
  return typeof b === 'string' && a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
}
