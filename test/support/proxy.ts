// A TCP proxy inside the test process: every fault a network has, on demand and without root.
//
//   await using proxy = await startProxy({ port: server.port })
//   proxy.down.drop()                 // requests arrive, replies are lost
//   proxy.up.hold('EVALSHA')          // keep that request until proxy.up.letGo()
//
// It ends TCP on both sides, so an end that is cut off is cut off from the other end, not from the kernel: a black-holed
// client still connects (in reality its SYN would be lost too), and then hears nothing.
import { createServer, type Server, type Socket } from 'node:net'
import { createDirection } from './proxy-direction.js'
import { createLink, type LinkControl } from './proxy-link.js'
import { freePort } from './servers/ports.js'

/** A connection through the proxy. */
export interface Link {
  readonly id: number
  /** False once both ends are gone. */
  readonly open: boolean
  /** Bytes delivered to the server. */
  readonly bytesUp: number
  /** Bytes delivered to the client. */
  readonly bytesDown: number
  /** FIN to both ends. */
  cut(): void
  /** RST to both ends. */
  reset(): void
}

/** Bytes held back, as they were read from the sender (which may be half a command, or several). */
export interface Chunk {
  readonly link: Link
  readonly bytes: Buffer
}

/** What to do with one direction of every link, those to come included. */
export interface ProxyDirection {
  /** Delivered since the start. */
  readonly bytes: number
  /** Back to normal: what is held or delayed goes out in order; a link that lost bytes is reset. */
  pass(): void
  /** Swallows everything, also what is held or delayed at the moment, and also that a sender closed. */
  drop(): void
  /** Each chunk arrives `ms` later, in order; what is held goes out. */
  delay(ms: number): void
  /** Keeps chunks back, on each link from the first that contains (or satisfies) `match` on. Default: all. */
  hold(match?: string | ((bytes: Buffer) => boolean)): void
  /** What is held back, oldest first. */
  readonly held: readonly Chunk[]
  /** Resolves with `held` once it has `count` (default 1) chunks; rejects when the proxy stops first. */
  holding(count?: number): Promise<readonly Chunk[]>
  /** Delivers the `count` oldest held chunks (default: all) and continues holding what comes next. */
  letGo(count?: number): void
  /** Half-close: FIN in this direction on every link; the other direction lives on. */
  close(): void
}

/** A proxy in front of one server. */
export interface TcpProxy extends AsyncDisposable {
  readonly host: string
  /** Stays the same over `refuse()` and `accept()`. */
  readonly port: number
  /** Client to server. */
  readonly up: ProxyDirection
  /** Server to client. */
  readonly down: ProxyDirection
  /** Open connections, oldest first. */
  readonly links: readonly Link[]
  /** Connections accepted since the start. */
  readonly accepted: number
  /** Both lanes drop, and a new connection hangs in silence without reaching the server. */
  blackHole(): void
  /** Both lanes pass again; links that lost anything are reset. Does not undo `refuse()`. */
  heal(): void
  /** FIN to both ends of every link. */
  cut(): void
  /** RST to both ends of every link. */
  reset(): void
  /** From now on new connections get ECONNREFUSED; open links live on. */
  refuse(): void
  /** Undoes `refuse()`. */
  accept(): Promise<void>
  /** Breaks every link and ends; = `Symbol.asyncDispose`. */
  stop(): Promise<void>
}

/** Starts a proxy on a free port of 127.0.0.1. */
export async function startProxy(target: {
  readonly host?: string
  readonly port: number
}): Promise<TcpProxy> {
  const up = createDirection()
  const down = createDirection()
  const links = new Map<number, LinkControl>()
  const surroundings = { target, up, down, closed: (id: number) => void links.delete(id) }
  let accepted = 0
  const take = (client: Socket): void => {
    accepted++
    links.set(accepted, createLink(accepted, client, surroundings))
  }
  let { server, port } = await listenSomewhere(take)

  const open = (): Link[] => [...links.values()].map(({ link }) => link)
  const stop = async (): Promise<void> => {
    server.close()
    for (const { destroy } of [...links.values()]) destroy()
    up.stop()
    down.stop()
  }
  return {
    host: '127.0.0.1',
    port,
    up: up.direction,
    down: down.direction,
    get links() {
      return open()
    },
    get accepted() {
      return accepted
    },
    blackHole: () => {
      up.direction.drop()
      down.direction.drop()
    },
    heal: () => {
      up.direction.pass()
      down.direction.pass()
    },
    cut: () => open().forEach((link) => void link.cut()),
    reset: () => open().forEach((link) => void link.reset()),
    refuse: () => void server.close(),
    accept: async () => {
      if (!server.listening) server = await listen(port, take)
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function listenSomewhere(take: (client: Socket) => void): Promise<{ server: Server; port: number }> {
  for (let tries = 1; ; tries++) {
    const port = await freePort()
    try {
      return { server: await listen(port, take), port }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || tries === 5) throw error
    }
  }
}

function listen(port: number, take: (client: Socket) => void): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, take)
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host: '127.0.0.1' }, () => resolve(server))
  })
}
