// One connection through the proxy: a socket to the client, one to the server, a pipe each way.
import { connect, type Socket } from 'node:net'
import type { Link } from './proxy.js'
import type { DirectionControl } from './proxy-direction.js'
import { reset } from './proxy-pipe.js'

/** The proxy's side of a link. */
export interface LinkControl {
  readonly link: Link
  destroy(): void
}

/** What a link needs to know of its proxy. */
export interface Surroundings {
  readonly target: { readonly host?: string; readonly port: number }
  readonly up: DirectionControl
  readonly down: DirectionControl
  readonly closed: (id: number) => void
}

/** Links `client` to the target. While both lanes drop it leads nowhere: that packet would not have arrived either. */
export function createLink(
  id: number,
  client: Socket,
  { target, up, down, closed }: Surroundings,
): LinkControl {
  const dark = up.dropping && down.dropping
  const server = dark ? undefined : connect({ ...target, allowHalfOpen: true, noDelay: true })
  const ends = server ? [client, server] : [client]
  const takeOff: (() => void)[] = []
  const isOver = (): boolean => ends.every((end) => end.destroyed)
  let bytesUp = 0
  let bytesDown = 0

  function breakOff(by: (end: Socket) => void): void {
    for (const off of takeOff) off()
    for (const end of ends) by(end)
  }
  const link: Link = {
    id,
    get open() {
      return !isOver()
    },
    get bytesUp() {
      return bytesUp
    },
    get bytesDown() {
      return bytesDown
    },
    cut: () => breakOff((end) => end.destroySoon()),
    reset: () => breakOff(reset),
  }

  const countUp = (bytes: number): void => {
    bytesUp += bytes
  }
  const countDown = (bytes: number): void => {
    bytesDown += bytes
  }
  takeOff.push(up.carry({ link, from: client, to: server, delivered: countUp }))
  if (server) takeOff.push(down.carry({ link, from: server, to: client, delivered: countDown }))
  for (const end of ends) {
    end.on('error', () => {}) // seen as 'close' by the lanes, which tell the other end
    end.on('close', () => {
      if (!isOver()) return
      for (const off of takeOff) off()
      closed(id)
    })
  }
  return { link, destroy: () => breakOff((end) => end.destroy()) }
}
