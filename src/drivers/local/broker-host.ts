/**
 * The broker's thread in this process: at most one per directory, whichever of its clients was elected. It ends when the last
 * client of that directory in this process closes; another process then takes over.
 *
 * A thread takes 40 ms to start. The first process that has to wait for a lock therefore starts a standby thread: if the broker's
 * process dies, this thread only has to bind the address.
 */
import { Worker } from 'node:worker_threads'
import type { BrokerCommand, BrokerStatus } from './broker-thread.js'
import { errorMessage } from './runtime-directory.js'

interface Thread {
  readonly worker: Worker
  readonly ended: Promise<void>
  /** The result of its orders; undefined while it is on standby. */
  started: Promise<BrokerStatus> | undefined
}

const bundled = ' (inside a bundle? holdfast must be external to it)'

const threads = new Map<string, Thread>()
const users = new Map<string, number>()

/** Registers a client of `directory` in this process. @returns a function that removes it again */
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

/** Has a thread for this directory been started? */
export function hasThread(directory: string): boolean {
  return threads.has(directory)
}

/** Starts a standby thread, unless there is a thread. Does not keep the process alive. */
export function startStandby(directory: string): Thread {
  const before = threads.get(directory)
  if (before !== undefined) return before
  // The thread inherits nothing from the start of this process: no loader, no inspector, no environment.
  // Written so that bundlers that know workers find the file.
  const worker = new Worker(new URL('./broker-thread.js', import.meta.url), {
    name: 'holdfast broker',
    execArgv: [],
    env: {},
  })
  worker.unref()
  // An error of the thread shows as the end of all its connections, and another process is elected.
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

/** Makes the thread a broker, unless it is one. Resolves with the result. */
export function startBroker(orders: BrokerCommand): Promise<BrokerStatus> {
  const thread = startStandby(orders.runtimeDirectory.directory)
  const { worker } = thread
  thread.started ??= new Promise<BrokerStatus>((resolve) => {
    worker.once('message', resolve)
    worker.once('error', (error) => resolve({ is: 'failed', why: explain(error) }))
    worker.once('exit', (code) =>
      resolve({ is: 'failed', why: `the broker's thread ended with code ${code}${bundled}` }),
    )
    worker.postMessage(orders)
  })
  return thread.started
}

/** Inside a bundle the file of the thread is missing, or it is not what it was. */
function explain(error: unknown): string {
  const missing = (error as { code?: unknown }).code === 'MODULE_NOT_FOUND'
  return `${errorMessage(error)}${missing ? bundled : ''}`
}

async function endThread(directory: string): Promise<void> {
  const thread = threads.get(directory)
  if (thread === undefined) return
  // From here on a caller waits for the thread.
  thread.worker.ref()
  if (thread.started === undefined) {
    // A client that arrives meanwhile must not give it orders: the result would be that this process cannot host a broker.
    threads.delete(directory)
    await thread.worker.terminate()
  } else if ((await thread.started).is === 'up') thread.worker.postMessage('stop')
  await thread.ended
}
