// The thread of `request-reply.ts`: takes JSON lines and answers each with one, keeps nothing.
import { createServer } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { stamp } from '../stamp.js'
import { lines } from './lines.js'

const { path, reply } = workerData as { readonly path: string; readonly reply: readonly unknown[] }

const server = createServer((socket) => {
  let out = ''
  socket.setEncoding('utf8')
  socket.on(
    'data',
    lines(([id]: readonly unknown[]) => {
      if (out === '')
        queueMicrotask(() => {
          socket.write(out)
          out = ''
        })
      out += `${JSON.stringify([id, ...reply])}\n`
    }),
  )
  socket.on('error', () => undefined)
  socket.on('close', () => parentPort?.postMessage({ closed: stamp() }))
})
server.listen({ path }, () => parentPort?.postMessage({ up: true }))
