/**
 * The broker's end of one connection: authenticates the client, turns lines into calls, and joins answers into packets.
 *
 * Any process on the machine may connect. An unauthenticated connection therefore costs little: short lines, one greeting, a deadline, and a
 * limit on their number.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Clock } from '../../core/clock.js'
import type { Broker } from './broker.js'
import type { Client, Connection } from './clients.js'
import {
  type BrokerHello,
  type Call,
  computeProof,
  type HelloReply,
  lineReader,
  maxHello,
  maxLine,
  version,
} from './protocol.js'
import { errorMessage } from './runtime-directory.js'

/** A client that reads nothing while more than this many characters wait for it is disconnected; it notices and comes back. */
const maxUnread = 16 * 1024 * 1024

/** How long a client may take to authenticate, in ms: one that was stopped in between comes back. */
const proofTimeout = 5_000
/** Beyond this number of unauthenticated connections, the oldest is cut. Our clients take milliseconds, so none is the oldest for long. */
const maxUnauthenticated = 128

export interface ServerParts {
  readonly broker: Broker
  /** Runs `send` as soon as it is certain that no other process has become the broker. */
  readonly asBroker: (send: () => void) => void
  /** The current secret in the home file, which both ends prove to know. @throws as fs does */
  readonly secret: () => string
  readonly clock: Clock
  /** The unauthenticated connections, oldest first. */
  readonly unauthenticated: Set<Socket>
}

export function acceptConnection(
  socket: Socket,
  { broker, asBroker, secret, clock, unauthenticated }: ServerParts,
): void {
  let out = ''
  let nonces: { readonly secret: string; readonly theirs: string; readonly ours: string } | undefined
  let client: Client | undefined
  let graceful = false
  let proven = false
  let refused = false
  const disarm = clock.at(clock.now() + proofTimeout, () => socket.destroy())
  unauthenticated.add(socket)
  for (const oldest of unauthenticated) {
    if (unauthenticated.size <= maxUnauthenticated) break
    unauthenticated.delete(oldest)
    oldest.destroy()
  }

  function flush(): void {
    if (out !== '' && !socket.destroyed) socket.write(out)
    out = ''
  }

  /**
   * All messages of one tick leave in one packet, after everything that has arrived on any connection is read: a write to a client that is
   * gone ends the connection, and its last messages would be lost.
   */
  function send(message: object): void {
    if (out === '') clock.soon(() => asBroker(flush))
    out += `${JSON.stringify(message)}\n`
    if (out.length + socket.writableLength > maxUnread) socket.destroy()
  }

  const connection: Connection = { send, end: () => socket.destroySoon() }

  function refuse(why: string): void {
    refused = true
    asBroker(() => {
      flush()
      socket.end(`${JSON.stringify(['no', why] satisfies HelloReply)}\n`)
    })
  }

  function sendHello(message: BrokerHello): void {
    switch (message[0]) {
      case 'hello': {
        if (message[1] !== version) {
          return refuse(
            `it speaks version ${version} of the protocol, this process speaks ${message[1]}; use one release of holdfast`,
          )
        }
        if (nonces !== undefined) return refuse('it was greeted before')
        nonces = { secret: secret(), theirs: message[2], ours: randomBytes(16).toString('hex') }
        const proof = computeProof('broker', nonces.secret, nonces.theirs, nonces.ours)
        return send(['hello', version, nonces.ours, proof, process.pid] satisfies HelloReply)
      }
      case 'prove': {
        const proof = nonces && computeProof('client', nonces.secret, nonces.theirs, nonces.ours)
        if (proof === undefined || !equalSecrets(proof, message[1]))
          return refuse('this process has not shown that it can read the home file')
        proven = true
        disarm()
        unauthenticated.delete(socket)
        return
      }
      case 'enter': {
        if (!proven) return refuse('this process has not shown that it can read the home file')
        const entered = broker.enter(connection, message[1])
        client = entered.client
        return send(['entered', entered.gone] satisfies HelloReply)
      }
      case 'bye':
        graceful = true
        return
    }
  }

  const take = (message: BrokerHello | Call) => {
    if (refused || broker.isStopped) return
    if (typeof message[0] !== 'number') sendHello(message as BrokerHello)
    else if (client === undefined) refuse('a call came before its greeting')
    // Calls that arrive over an earlier connection are ignored: the client has since stated anew what it wants.
    else if (client.connection === connection) broker.call(client, message as Call)
  }
  const read = lineReader<BrokerHello | Call>(take, () => (proven ? maxLine : maxHello))

  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    if (refused) return
    try {
      read(chunk)
    } catch (error) {
      refuse(errorMessage(error))
    }
  })
  // Any error of a connection shows as its end.
  socket.on('error', () => undefined)
  socket.on('close', () => {
    disarm()
    unauthenticated.delete(socket)
    if (client !== undefined) broker.clientLeft(client, connection, graceful)
  })
}

function equalSecrets(a: string, b: unknown): boolean {
  return typeof b === 'string' && a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
}
