/** Counts what this process says over the sockets it connects: exact, and without asking whoever opened them. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

export interface Traffic {
  /** Lines written since the last look. */
  lines(): number
  stop(): void
}

/** Only sockets that are connected from now on. */
export function countLines(): Traffic {
  let count = 0
  const watch = (event: unknown) => {
    const { socket } = event as { readonly socket: Socket }
    // Connecting, which follows at once, puts the plain `write` back.
    queueMicrotask(() => {
      const write = socket.write.bind(socket) as (...args: readonly unknown[]) => boolean
      socket.write = (...args: readonly unknown[]) => {
        const [chunk] = args
        if (typeof chunk === 'string') count += chunk.split('\n').length - 1
        return write(...args)
      }
    })
  }
  subscribe('net.client.socket', watch)
  return {
    lines() {
      const seen = count
      count = 0
      return seen
    },
    stop: () => unsubscribe('net.client.socket', watch),
  }
}
