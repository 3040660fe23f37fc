/**
 * The floor of a ZooKeeper client: hand-written frames over one connection, replies taken in order, no state, and no check except for errors.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface ZookeeperWire {
  /** Creates an ephemeral sequential node and lists its siblings, in one send; resolves with its path. */
  enter(parent: string): Promise<string>
  remove(path: string): Promise<void>
  /** Creates a persistent node if it is missing. */
  make(path: string): Promise<void>
  /** Reads the node and sets a watch. Resolves once the watch is set; `changed` resolves at the notification. */
  watch(path: string): Promise<{ readonly changed: Promise<void> }>
  list(parent: string): Promise<readonly string[]>
  close(): void
}

const open = { permissions: 31, scheme: 'world', id: 'anyone' }

export async function zookeeperWire(port: number): Promise<ZookeeperWire> {
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  const waiting: ((body: Buffer) => void)[] = []
  const watching = new Map<string, () => void>()
  let held = Buffer.alloc(0)
  let accepted = false
  socket.on('data', (chunk) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const size = held.readInt32BE(0)
      const body = held.subarray(4, 4 + size)
      held = held.subarray(4 + size)
      // An event: type and state, then the path.
      if (accepted && body.readInt32BE(0) === -1) watching.get(textAt(body, 24))?.()
      else waiting.shift()?.(body)
    }
  })
  const send = (frame: Buffer): Promise<Buffer> => {
    socket.write(frame)
    return new Promise((resolve) => waiting.push(resolve))
  }
  let xid = 0
  const call = async (op: number, ...parts: readonly Buffer[]): Promise<{ error: number; body: Buffer }> => {
    const body = await send(framed(int(++xid), int(op), ...parts))
    return { error: body.readInt32BE(12), body: body.subarray(16) }
  }
  const well = async (answer: Promise<{ error: number; body: Buffer }>): Promise<Buffer> => {
    const { error, body } = await answer
    if (error !== 0) throw new Error(`the server answered ${error}`)
    return body
  }
  const node = (path: string, flag: number) => [
    text(path),
    text('{"by":"bench"}'),
    int(1),
    int(open.permissions),
    text(open.scheme),
    text(open.id),
    int(flag),
  ]
  await send(framed(int(0), long(0n), int(30_000), long(0n), text('\0'.repeat(16)), Buffer.from([0])))
  accepted = true
  return {
    async enter(parent) {
      socket.cork()
      const created = well(call(15, ...node(`${parent}/_c_${'0'.repeat(32)}-lock-`, 3)))
      const listed = well(call(12, text(parent), Buffer.from([0])))
      socket.uncork()
      const [body] = await Promise.all([created, listed])
      return body.subarray(4, 4 + body.readInt32BE(0)).toString()
    },
    remove: async (path) => void (await well(call(2, text(path), int(-1)))),
    make: async (path) => void (await call(15, ...node(path, 0))),
    async watch(path) {
      const changed = new Promise<void>((resolve) => watching.set(path, resolve))
      await well(call(4, text(path), Buffer.from([1])))
      return { changed }
    },
    list: async (parent) => parseTexts(await well(call(12, text(parent), Buffer.from([0])))),
    close: () => socket.destroy(),
  }
}

function int(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeInt32BE(value)
  return bytes
}

function long(value: bigint): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigInt64BE(value)
  return bytes
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([int(bytes.length), bytes])
}

function textAt(body: Buffer, at: number): string {
  return body.toString('utf8', at + 4, at + 4 + body.readInt32BE(at))
}

function parseTexts(body: Buffer): readonly string[] {
  const texts: string[] = []
  for (let at = 4; texts.length < body.readInt32BE(0); at += 4 + body.readInt32BE(at)) {
    texts.push(textAt(body, at))
  }
  return texts
}

function framed(...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([int(body.length), body])
}
