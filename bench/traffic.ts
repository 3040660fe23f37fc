/** Counts the lines this process writes to the sockets it connects: exactly, and without access to the code that opened them. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

export interface Traffic {
  /** Lines written since the last call. */
  lines(): number
  stop(): void
}

/** Counts only sockets connected from now on. */
export function countLines(): Traffic {
  let count = 0
  const watch = (event: unknown) => {
    const { socket } = event as { readonly socket: Socket }
    // Connecting, which follows immediately, restores the plain `write`.
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
