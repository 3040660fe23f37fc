// Between a client and a server: passes everything on, but for one answer when it is asked to. What comes after that is passed on, as by a
// server that drops a request of a session that has moved.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

const createOp = 15

export interface Relay {
  readonly port: number
  /** The answer to the next create will be swallowed. */
  swallow(): void
  readonly swallowed: number
  stop(): Promise<void>
}

export async function startRelay(port: number): Promise<Relay> {
  const sockets = new Set<Socket>()
  let armed = false
  let swallowed = 0
  const relay = createServer((client) => {
    const server = connect(port, '127.0.0.1')
    let unanswered: number | undefined
    const up = (frame: Buffer) => {
      if (armed && frame.readInt32BE(8) === createOp) {
        armed = false
        unanswered = frame.readInt32BE(4)
      }
      server.write(frame)
    }
    const down = (frame: Buffer) => {
      if (frame.readInt32BE(4) === unanswered) {
        unanswered = undefined
        swallowed++
      } else client.write(frame)
    }
    for (const [from, to, pass] of [
      [client, server, up],
      [server, client, down],
    ] as const) {
      sockets.add(from)
      from.on('data', inFrames(pass))
      from.on('error', () => to.destroy())
      from.on('close', () => to.destroy())
    }
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  return {
    port: (relay.address() as AddressInfo).port,
    swallow() {
      armed = true
    },
    get swallowed() {
      return swallowed
    },
    async stop() {
      relay.close()
      for (const socket of sockets) socket.destroy()
      await once(relay, 'close')
    },
  }
}

/** Each with the length that leads it. */
function inFrames(pass: (frame: Buffer) => void): (chunk: Buffer) => void {
  let held = Buffer.alloc(0)
  return (chunk) => {
    held = Buffer.concat([held, chunk])
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const size = 4 + held.readInt32BE(0)
      pass(held.subarray(0, size))
      held = held.subarray(size)
    }
  }
}
