/**
 * The floor of a lock kept by another thread or process: one request and its reply as JSON lines over the kind of socket that the local
 * driver uses, with the server in a worker thread and no work on either side.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { lines } from './lines.js'

export interface ReplyServer {
  readonly path: string
  /** When the server sees the first connection end after `since`; both as `stamp()`. */
  closedAfter(since: number): Promise<number>
  stop(): Promise<void>
}

/** @param reply the reply to every request, after its id */
export async function startReplies(reply: readonly unknown[]): Promise<ReplyServer> {
  const path = socketPath()
  const worker = new Worker(new URL('./reply-server.js', import.meta.url), { workerData: { path, reply } })
  await once(worker, 'message')
  return {
    path,
    async closedAfter(since) {
      for (;;) {
        const [{ closed }] = (await once(worker, 'message')) as [{ readonly closed: number }]
        if (closed >= since) return closed
      }
    },
    stop: async () => void (await worker.terminate()),
  }
}

export interface Bare {
  /** Sends `request` after an id and resolves with the reply. */
  ask(request: readonly unknown[]): Promise<readonly unknown[]>
  close(): Promise<void>
}

/** @param reported called for every line of another connection that begins with `relay`, after this one has sent `listen` */
export async function connectBare(path: string, reported: () => void = () => undefined): Promise<Bare> {
  const socket = connect({ path })
  await once(socket, 'connect')
  const waiting = new Map<number, (reply: readonly unknown[]) => void>()
  let lastId = 0
  let out = ''
  socket.setEncoding('utf8')
  socket.on(
    'data',
    lines((reply: readonly [number, ...unknown[]]) => {
      const [id] = reply
      if (id === 0) reported()
      waiting.get(id)?.(reply)
      waiting.delete(id)
    }),
  )
  return {
    ask: (request) =>
      new Promise((resolve) => {
        waiting.set(++lastId, resolve)
        if (out === '')
          queueMicrotask(() => {
            socket.write(out)
            out = ''
          })
        out += `${JSON.stringify([lastId, ...request])}\n`
      }),
    async close() {
      socket.end()
      await once(socket, 'close')
    },
  }
}

/** An abstract name where supported, as in the local driver. */
function socketPath(): string {
  const name = `holdfast-bench-${process.pid}-${randomBytes(6).toString('hex')}`
  if (process.platform === 'linux') return `\0${name}`
  return process.platform === 'win32' ? `\\\\.\\pipe\\${name}` : join(tmpdir(), name)
}
