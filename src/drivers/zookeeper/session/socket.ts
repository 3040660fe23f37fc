/** One connection to one server: sends and receives frames. */
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import type { TlsOptions } from '../../kit/http.js'
import type { Address } from '../options.js'

export interface Connection {
  /** All frames sent in one tick leave in one packet. */
  send(frame: Buffer): void
  /** Should the connection keep the process alive? */
  keepAlive(yes: boolean): void
  /** Closes at once; `gone` is not called afterwards. */
  destroy(): void
}

export interface ConnectionHooks {
  opened(): void
  frame(body: Buffer): void
  /** The connection has ended or never came up; called once. */
  gone(error: Error): void
}

/** A longer message is not ZooKeeper's (its own limit is 1 MiB by default): another service listens there. */
const maxFrame = 64 * 1024 * 1024

function open({ host, port }: Address, tls: TlsOptions | undefined, opened: () => void): Socket {
  if (tls === undefined) return connect({ host, port, noDelay: true }).on('connect', opened)
  // SNI: a host name is sent, because the server may have several certificates; an IP address must not be sent.
  const name = isIP(host) === 0 ? { servername: host } : {}
  const socket = connectSecurely({ host, port, ...name, ...tls })
  return socket.setNoDelay(true).on('secureConnect', opened)
}

export function openConnection(
  address: Address,
  tls: TlsOptions | undefined,
  hooks: ConnectionHooks,
): Connection {
  const { host, port } = address
  const socket = open(address, tls, () => {
    if (!over) hooks.opened()
  })
  let over = false
  let corked = false
  let held: Buffer = Buffer.alloc(0)

  const end = (error: Error) => {
    if (over) return
    over = true
    socket.destroy()
    hooks.gone(error)
  }
  const read = (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    while (!over && held.length >= 4) {
      const size = held.readInt32BE(0)
      if (size < 0 || size > maxFrame)
        return end(new Error(`${host}:${port} does not speak ZooKeeper's protocol`))
      if (held.length < 4 + size) return
      const body = held.subarray(4, 4 + size)
      held = held.subarray(4 + size)
      try {
        hooks.frame(body)
      } catch (error) {
        return end(error instanceof Error ? error : new Error(String(error)))
      }
    }
  }
  socket.on('data', read)
  socket.on('error', end)
  socket.on('close', () => end(new Error(`${host}:${port} closed the connection`)))

  return {
    send(frame) {
      if (over) return
      if (!corked) {
        corked = true
        socket.cork()
        process.nextTick(() => {
          corked = false
          socket.uncork()
        })
      }
      socket.write(frame)
    },
    keepAlive: (yes) => void (yes ? socket.ref() : socket.unref()),
    destroy() {
      over = true
      socket.destroy()
    },
  }
}
