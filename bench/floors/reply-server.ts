// The thread of `request-reply.ts`: receives JSON lines and answers each with one; its only state is the list of connections that listen to
// the others' lines.
import { createServer } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { stamp } from '../stamp.js'
import { lines } from './lines.js'

const { path, reply } = workerData as { readonly path: string; readonly reply: readonly unknown[] }

let listener: ((line: readonly unknown[]) => void) | undefined

const server = createServer((socket) => {
  let out = ''
  const send = (message: readonly unknown[]) => {
    if (out === '')
      queueMicrotask(() => {
        socket.write(out)
        out = ''
      })
    out += `${JSON.stringify(message)}\n`
  }
  socket.setEncoding('utf8')
  socket.on(
    'data',
    lines(([id, verb]: readonly unknown[]) => {
      if (verb === 'relay') listener?.([0, ...reply])
      if (verb === 'listen') listener = send
      send([id, ...reply])
    }),
  )
  socket.on('error', () => undefined)
  socket.on('close', () => parentPort?.postMessage({ closed: stamp() }))
})
server.listen({ path }, () => parentPort?.postMessage({ up: true }))
