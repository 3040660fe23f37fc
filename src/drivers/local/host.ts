/**
 * The broker's thread in this process: at most one for each directory, whichever of its clients was elected. It ends when
 * the last client of that directory in this process has closed, and another process takes over.
 *
 * A thread takes 40 ms to start. So the first process that has to wait for a lock starts one that only stands by: should
 * the broker's process die, it has nothing left to do but to bind the address.
 */
import { Worker } from 'node:worker_threads'
import type { Orders, Report } from './broker-thread.js'
import { messageOf } from './home.js'

interface Thread {
  readonly worker: Worker
  readonly ended: Promise<void>
  /** What became of its orders; undefined while it only stands by. */
  started: Promise<Report> | undefined
}

const threads = new Map<string, Thread>()
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
      await endThread(directory)
    }
  }
}

/** Is there a thread that need not be started any more? */
export function hasThread(directory: string): boolean {
  return threads.has(directory)
}

/** Starts a thread that stands by, unless there is one. Does not keep the process alive. */
export function standBy(directory: string): Thread {
  const before = threads.get(directory)
  if (before !== undefined) return before
  // Nothing of how this process was started concerns the thread: no loader, no inspector, no environment.
  const worker = new Worker(new URL('./broker-thread.js', import.meta.url), {
    name: 'holdfast broker',
    execArgv: [],
    env: {},
  })
  worker.unref()
  // An error of the thread shows as the end of all its connections, and somebody else is elected.
  worker.on('error', () => undefined)
  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      if (threads.get(directory) === thread) threads.delete(directory)
      resolve()
    })
  })
  const thread: Thread = { worker, ended, started: undefined }
  threads.set(directory, thread)
  return thread
}

/** Makes the thread a broker, unless it is one, and resolves with what became of that. */
export function startBroker(orders: Orders): Promise<Report> {
  const thread = standBy(orders.home.directory)
  const { worker } = thread
  thread.started ??= new Promise<Report>((resolve) => {
    worker.once('message', resolve)
    worker.once('error', (error) => resolve({ is: 'failed', why: messageOf(error) }))
    worker.once('exit', (code) =>
      resolve({ is: 'failed', why: `the broker's thread ended with code ${code}` }),
    )
    worker.postMessage(orders)
  })
  return thread.started
}

async function endThread(directory: string): Promise<void> {
  const thread = threads.get(directory)
  if (thread === undefined) return
  // From here on somebody waits for it.
  thread.worker.ref()
  if (thread.started === undefined) {
    // A client that comes meanwhile must not give it orders: it would be told that this process can host no broker.
    threads.delete(directory)
    await thread.worker.terminate()
  } else if ((await thread.started).is === 'up') thread.worker.postMessage('stop')
  await thread.ended
}
