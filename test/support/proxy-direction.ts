// One direction of the proxy over all its links. A lane is in one mode at a time:
//   pass   deliver at once                    delay  deliver each chunk later
//   drop   swallow, also FIN and RST          hold   keep from the first match on, until let go
// TCP never delivers a stream with a hole in it, so a link that lost bytes can only stay silent or break: going back to
// `pass` resets it.
import type { Chunk, ProxyDirection } from './proxy.js'
import { createPipe, type Entry, type Piece, type Pipe, type Route } from './proxy-pipe.js'

type Mode =
  | { readonly is: 'pass' | 'drop' }
  | { readonly is: 'delay'; readonly ms: number }
  | { readonly is: 'hold'; readonly match: (bytes: Buffer) => boolean }

interface Waiter {
  readonly count: number
  readonly resolve: (chunks: readonly Chunk[]) => void
  readonly reject: (error: Error) => void
}

/** The proxy's side of a lane. */
export interface DirectionControl {
  readonly direction: ProxyDirection
  readonly dropping: boolean
  /** Carries a new link in this direction; returns how to take it off again. */
  carry(route: Route): () => void
  stop(): void
}

// Longer than a function should be: these few variables are the lane, and every verb below is a few lines on them.
export function createDirection(): DirectionControl {
  const pipes = new Set<Pipe>()
  let mode: Mode = { is: 'pass' }
  let order: Entry[] = [] // what is held, oldest first, over all links
  let waiters: Waiter[] = []
  let bytes = 0

  const held = (): readonly Chunk[] =>
    order.flatMap(({ pipe, piece }) => (piece instanceof Buffer ? [{ link: pipe.link, bytes: piece }] : []))

  function arrived(pipe: Pipe, piece: Piece): void {
    if (!pipes.has(pipe)) return
    if (mode.is === 'drop') {
      pipe.lost = true
      return
    }
    const behind = pipe.queue.some((entry) => entry.held)
    const hold = mode.is === 'hold' && (behind || (piece instanceof Buffer && mode.match(piece)))
    const entry = pipe.push(piece, mode.is === 'delay' ? performance.now() + mode.ms : 0, hold)
    if (!hold) return pipe.flush()
    order.push(entry)
    const chunks = held()
    for (const { count, resolve } of waiters) if (chunks.length >= count) resolve(chunks)
    waiters = waiters.filter(({ count }) => chunks.length < count)
  }

  function letGo(count = Number.POSITIVE_INFINITY): void {
    for (let left = count; order[0] && left > 0; ) {
      const entry = order.shift()!
      if (entry.piece instanceof Buffer) left--
      entry.held = false
      entry.pipe.flush()
    }
  }

  function become(next: Mode): void {
    mode = next
    if (next.is === 'drop') {
      order = []
      for (const pipe of pipes) {
        pipe.lost ||= pipe.queue.length > 0
        pipe.discard()
      }
    } else if (next.is !== 'hold') letGo()
    if (next.is !== 'pass') return
    for (const pipe of [...pipes]) {
      for (const entry of pipe.queue) entry.due = 0
      if (pipe.lost) pipe.link.reset()
      else pipe.flush()
    }
  }

  function carry(route: Route): () => void {
    const count = (sent: number): void => {
      bytes += sent
      route.delivered(sent)
    }
    const pipe = createPipe({ ...route, delivered: count })
    const { from } = route
    pipes.add(pipe)
    from.on('data', (chunk) => arrived(pipe, chunk))
    from.on('end', () => arrived(pipe, 'fin'))
    from.on('close', (broken) => {
      if (broken || !from.readableEnded) arrived(pipe, 'rst')
    })
    return () => {
      pipe.discard()
      order = order.filter((entry) => entry.pipe !== pipe)
      pipes.delete(pipe)
    }
  }

  const direction: ProxyDirection = {
    get bytes() {
      return bytes
    },
    get held() {
      return held()
    },
    pass: () => become({ is: 'pass' }),
    drop: () => become({ is: 'drop' }),
    delay: (ms) => become({ is: 'delay', ms }),
    hold: (match = () => true) =>
      become({ is: 'hold', match: typeof match === 'string' ? (chunk) => chunk.includes(match) : match }),
    holding: (count = 1) =>
      new Promise((resolve, reject) => {
        if (held().length >= count) resolve(held())
        else waiters.push({ count, resolve, reject })
      }),
    letGo,
    close: () => {
      for (const pipe of pipes) pipe.deliver('fin')
    },
  }
  const stop = (): void => {
    for (const { reject } of waiters.splice(0)) reject(new Error('the proxy was stopped before that'))
  }
  return {
    direction,
    carry,
    stop,
    get dropping() {
      return mode.is === 'drop'
    },
  }
}
