/** One connection of a client to the broker: the greeting, in which both prove who they are, and then lines both ways. */
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { StringDecoder } from 'node:string_decoder'
import { type Home, messageOf } from './home.js'
import {
  type Entering,
  type Greeting,
  lineReader,
  proofOf,
  type Reply,
  version,
  type Welcome,
} from './protocol.js'

export interface ConnectionEnding {
  /** It was up, and is not any more. */
  readonly entered: boolean
  /** Of the error that `connect` gave. */
  readonly code?: string | undefined
  /** Why the broker, or we, did not want it. */
  readonly refusal?: string
}

export interface BrokerConnection {
  readonly ended: Promise<ConnectionEnding>
  /** Whole lines. */
  send(text: string): void
  /** Says goodbye, if it has been greeted, and ends. Keeps the process alive until then. */
  leave(): void
  cut(): void
}

export interface ConnectionParts {
  readonly entering: () => Entering
  readonly onEntered: (gone: readonly string[], brokerPid: number) => void
  readonly onReply: (reply: Reply) => void
}

/** Bytes read in one go: an answer is some 100. */
const chunkSize = 16 * 1024

/** Connects to `path`. Does not keep the process alive. */
export function greet(home: Home, path: string, parts: ConnectionParts): BrokerConnection {
  const nonce = randomBytes(16).toString('hex')
  const shown = path.replace('\0', '@')
  // Handed over as it comes: a stream in between would cost as much as everything else that is done with an answer.
  const socket = connect({ path, onread: { buffer: Buffer.allocUnsafe(chunkSize), callback: received } })
  const decoder = new StringDecoder('utf8')
  let entered = false
  let code: string | undefined
  let refusal: string | undefined
  let brokerPid = 0
  socket.unref()

  const text = (message: Greeting) => `${JSON.stringify(message)}\n`

  function refuse(why: string): void {
    refusal ??= why
    socket.destroy()
  }

  function welcome(message: Welcome): void {
    if (message[0] === 'no') return refuse(message[1])
    if (message[0] === 'entered') {
      entered = true
      return parts.onEntered(message[1], brokerPid)
    }
    const [, theirVersion, theirNonce, proof, pid] = message
    if (theirVersion !== version || proof !== proofOf('broker', home.secret, nonce, theirNonce)) {
      return refuse(`whatever listens at ${shown} cannot read ${home.directory}`)
    }
    brokerPid = pid
    socket.write(text(['enter', proofOf('client', home.secret, nonce, theirNonce), parts.entering()]))
  }

  const read = lineReader<Welcome | Reply>((message) => {
    if (typeof message[0] === 'number') parts.onReply(message as Reply)
    else welcome(message as Welcome)
  })

  function received(bytes: number, buffer: Uint8Array): boolean {
    try {
      read(decoder.write(Buffer.from(buffer.buffer, buffer.byteOffset, bytes)))
    } catch (error) {
      refuse(`whatever listens at ${shown} speaks no protocol of ours: ${messageOf(error)}`)
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
      if (entered) socket.end(text(['bye']), () => socket.destroy())
      else socket.destroy()
    },
    cut: () => void socket.destroy(),
  }
}
