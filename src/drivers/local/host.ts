/**
 * The brokers that run in this process: at most one thread for each directory, whichever of its clients was elected.
 * It ends when the last client of that directory in this process has closed, and hands over to another process.
 */
import { Worker } from 'node:worker_threads'
import type { Orders, Report } from './broker-thread.js'
import { messageOf } from './home.js'

interface Hosted {
  readonly worker: Worker
  readonly started: Promise<Report>
  readonly ended: Promise<void>
}

const hosted = new Map<string, Hosted>()
const users = new Map<string, number>()

/** Counts a client of `directory` in this process; the function given back counts it out again. */
export function useDirectory(directory: string): () => Promise<void> {
  users.set(directory, (users.get(directory) ?? 0) + 1)
  let left = false
  return async () => {
    if (left) return
    left = true
    const others = (users.get(directory) ?? 1) - 1
    if (others > 0) users.set(directory, others)
    else {
      users.delete(directory)
      await stopBroker(directory)
    }
  }
}

/** Starts the thread, unless it runs, and resolves with what became of it. Does not keep the process alive. */
export function startBroker(orders: Orders): Promise<Report> {
  const { directory } = orders.home
  const running = hosted.get(directory)
  if (running !== undefined) return running.started
  // Nothing of how this process was started concerns the thread: no loader, no inspector, no environment.
  const worker = new Worker(new URL('./broker-thread.js', import.meta.url), {
    workerData: orders,
    name: 'holdfast broker',
    execArgv: [],
    env: {},
  })
  worker.unref()
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  const started = new Promise<Report>((resolve) => {
    worker.once('message', resolve)
    worker.once('error', (error) => resolve({ is: 'failed', why: messageOf(error) }))
    worker.once('exit', (code) => resolve({ is: 'failed', why: `the broker thread ended with code ${code}` }))
  })
  const host = { worker, started, ended }
  hosted.set(directory, host)
  // A later error of the thread shows as the end of all its connections, and somebody else is elected.
  worker.on('error', () => undefined)
  worker.once('exit', () => {
    if (hosted.get(directory) === host) hosted.delete(directory)
  })
  return started
}

async function stopBroker(directory: string): Promise<void> {
  const host = hosted.get(directory)
  if (host === undefined) return
  // From here on somebody waits for it.
  host.worker.ref()
  if ((await host.started).is === 'up') host.worker.postMessage('stop')
  await host.ended
}
