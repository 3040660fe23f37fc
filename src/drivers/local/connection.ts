/** One connection of a client to the broker: first a greeting in which both authenticate, then lines both ways. */
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { StringDecoder } from 'node:string_decoder'
import { displayAddress } from './address.js'
import {
  type BrokerHello,
  computeProof,
  type Hello,
  type HelloReply,
  lineReader,
  type Reply,
  version,
} from './protocol.js'
import { errorMessage, type RuntimeDirectory } from './runtime-directory.js'

export interface ConnectionEnding {
  /** The connection was up before it ended. */
  readonly entered: boolean
  /** The code of the error from `connect`. */
  readonly code?: string | undefined
  /** Why the broker, or we, refused the connection. */
  readonly refusal?: string
}

export interface BrokerConnection {
  readonly ended: Promise<ConnectionEnding>
  /** Whole lines. */
  send(text: string): void
  /** Sends `bye`, if it was entered, and ends. Keeps the process alive until then. */
  leave(): void
  cut(): void
}

export interface ConnectionParts {
  readonly entering: () => Hello
  readonly onEntered: (gone: readonly string[], brokerPid: number) => void
  readonly onReply: (reply: Reply) => void
}

/** The bytes of one read: an answer has some 100. */
const chunkSize = 16 * 1024

/** Connects to `path`. Does not keep the process alive. */
export function authenticate(
  runtimeDirectory: RuntimeDirectory,
  path: string,
  parts: ConnectionParts,
): BrokerConnection {
  const nonce = randomBytes(16).toString('hex')
  const shown = displayAddress(path)
  const unproven = `whatever listens at ${shown} cannot read ${runtimeDirectory.directory}`
  // Read without a stream: a stream would cost as much as everything else that is done with an answer.
  const socket = connect({ path, onread: { buffer: Buffer.allocUnsafe(chunkSize), callback: received } })
  const decoder = new StringDecoder('utf8')
  let isProven = false
  let entered = false
  let code: string | undefined
  let refusal: string | undefined
  let brokerPid = 0
  socket.unref()

  const text = (message: BrokerHello) => `${JSON.stringify(message)}\n`

  function refuse(why: string): void {
    refusal ??= why
    socket.destroy()
  }

  function welcome(message: HelloReply): void {
    if (message[0] === 'no') return refuse(message[1])
    if (message[0] === 'entered') {
      if (!isProven) return refuse(unproven)
      entered = true
      return parts.onEntered(message[1], brokerPid)
    }
    const [, theirVersion, theirNonce, proof, pid] = message
    if (
      theirVersion !== version ||
      proof !== computeProof('broker', runtimeDirectory.secret, nonce, theirNonce)
    ) {
      return refuse(unproven)
    }
    isProven = true
    brokerPid = pid
    const proven = text(['prove', computeProof('client', runtimeDirectory.secret, nonce, theirNonce)])
    socket.write(proven + text(['enter', parts.entering()]))
  }

  const read = lineReader<HelloReply | Reply>((message) => {
    // Nothing counts before the broker has proven that it can read the directory, and nothing after a refusal.
    if (refusal !== undefined) return
    if (typeof message[0] !== 'number') return welcome(message as HelloReply)
    if (isProven) parts.onReply(message as Reply)
    else refuse(unproven)
  })

  function received(bytes: number, buffer: Uint8Array): boolean {
    try {
      read(decoder.write(Buffer.from(buffer.buffer, buffer.byteOffset, bytes)))
    } catch (error) {
      refuse(`whatever listens at ${shown} speaks no protocol of ours: ${errorMessage(error)}`)
    }
    return true
  }

  socket.once('connect', () => socket.write(text(['hello', version, nonce])))
  socket.on('error', (error: NodeJS.ErrnoException) => {
    code ??= error.code
  })
  const ended = new Promise<ConnectionEnding>((resolve) => {
    socket.once('close', () => resolve({ entered, code, ...(refusal !== undefined && { refusal }) }))
  })

  return {
    ended,
    send: (text) => void socket.write(text),
    leave() {
      socket.ref()
      // The broker closes once it has read this. If we closed first, a write of the broker could fail before it reads our `bye`.
      if (entered) socket.end(text(['bye']))
      else socket.destroy()
    },
    cut: () => void socket.destroy(),
  }
}
