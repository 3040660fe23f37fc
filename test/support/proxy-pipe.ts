// One link in one direction: a queue between the socket that sends and the socket that receives, delivered in order.
//
// Closing is part of the stream: FIN and RST stand in the queue behind the bytes before them.
import type { Socket } from 'node:net'
import type { Link } from './proxy.js'

/** What a sender did. */
export type Piece = Buffer | 'fin' | 'rst'

/** A piece on its way. */
export interface Entry {
  readonly pipe: Pipe
  readonly piece: Piece
  /** Not before this time (`performance.now()`), and not while it is held. */
  due: number
  held: boolean
}

/** One direction of one link. */
export interface Pipe {
  readonly link: Link
  readonly queue: readonly Entry[]
  /** Bytes were swallowed: the receiver gets nothing more, until it is reset. */
  lost: boolean
  push(piece: Piece, due: number, held: boolean): Entry
  /** Delivers what may go; comes back by itself for what is not due yet. */
  flush(): void
  /** Delivers this now, past the queue. */
  deliver(piece: Piece): void
  /** Empties the queue. */
  discard(): void
}

/** Where a pipe leads; no `to`: nowhere. */
export interface Route {
  readonly link: Link
  readonly from: Socket
  readonly to: Socket | undefined
  readonly delivered: (bytes: number) => void
}

/**
 * RST. Node cannot reset a socket whose FIN is on the way: it takes the socket for closed and never closes it. A socket
 * that is still connecting sends its FIN first. In both cases the reset follows the FIN.
 */
export function reset(end: Socket): void {
  const closing = end.writableEnded && !end.writableFinished && (end.connecting || end.writableLength === 0)
  if (closing) end.once('finish', () => end.resetAndDestroy())
  else end.resetAndDestroy()
}

export function createPipe({ link, from, to, delivered }: Route): Pipe {
  let queue: Entry[] = []
  let timer: NodeJS.Timeout | undefined

  function deliver(piece: Piece): void {
    if (!to || to.destroyed) return
    if (piece === 'rst') reset(to)
    else if (to.writableEnded) return
    else if (piece === 'fin') to.end()
    else {
      delivered(piece.length)
      if (to.write(piece) || from.isPaused()) return
      from.pause() // the receiver is slow: let the sender feel it, as without a proxy
      to.once('drain', () => from.resume())
    }
  }

  function flush(): void {
    clearTimeout(timer)
    for (let head = queue[0]; head && !head.held; head = queue[0]) {
      const wait = head.due - performance.now()
      if (wait > 0) {
        timer = setTimeout(flush, wait)
        return
      }
      queue.shift()
      deliver(head.piece)
    }
  }

  const pipe: Pipe = {
    link,
    get queue() {
      return queue
    },
    lost: to === undefined,
    push: (piece, due, held) => {
      const entry = { pipe, piece, due, held }
      queue.push(entry)
      return entry
    },
    flush,
    deliver,
    discard: () => {
      clearTimeout(timer)
      queue = []
    },
  }
  return pipe
}
