// A request whose answer arrives while the process that asked is paused, and whose time is over by then.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../../src/core/clock.js'
import { systemEnv } from '../../../src/core/engine.js'

export interface Answering {
  readonly port: number
  /** No deadline falls due by itself. */
  readonly clock: Clock
  /** Lets one request be answered. */
  answerOne(): void
  /** Stands still from the arrival of the request until its answer has arrived, and then lets every deadline fall due before anything is read. */
  standStill(): Promise<void>
  stop(): Promise<void>
}

/**
 * @param serve JavaScript for the thread of the server: calls `listen(server)`, and for each request `arrived(answer)`; `answer`
 * takes what to call once it has been written
 */
export async function answering(serve: string, data: object = {}): Promise<Answering> {
  const [requests, answers, allowed] = [0, 1, 2]
  const counts = new Int32Array(new SharedArrayBuffer(12))
  const thread = new Worker(`${frame}\n${serve}`, { eval: true, workerData: { ...data, counts } })
  const [port] = await once(thread, 'message')
  const deadlines = new Set<() => void>()
  const clock: Clock = {
    ...systemEnv().clock,
    at: (_at, due) => {
      deadlines.add(due)
      return () => void deadlines.delete(due)
    },
  }
  const answerOne = () => void Atomics.add(counts, allowed, 1)
  return {
    ...{ port, clock, answerOne },
    async standStill() {
      const before = Atomics.load(counts, allowed)
      while (Atomics.load(counts, requests) === before) await new Promise(setImmediate)
      answerOne()
      for (let seen = 0; seen <= before; seen = Atomics.load(counts, answers))
        Atomics.wait(counts, answers, seen)
      for (const due of deadlines) due()
    },
    async stop() {
      const ended = once(thread, 'exit')
      thread.postMessage('end')
      await ended
    },
  }
}

const frame = `
  const { workerData, parentPort } = require('node:worker_threads')
  const { counts } = workerData
  const listen = (server) => {
    const sockets = new Set()
    server.on('connection', (socket) => sockets.add(socket))
    server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
    // Node aborts the process if a thread that serves HTTP/2 is terminated.
    parentPort.once('message', () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    })
  }
  const answered = () => {
    Atomics.add(counts, 1, 1)
    Atomics.notify(counts, 1)
  }
  const arrived = (answer) => {
    const number = Atomics.add(counts, 0, 1) + 1
    const look = setInterval(() => {
      if (Atomics.load(counts, 2) < number) return
      clearInterval(look)
      // What follows the answer, as its trailers do, has left by then, too.
      answer(() => setTimeout(answered, 50))
    }, 1)
    look.unref()
  }`
