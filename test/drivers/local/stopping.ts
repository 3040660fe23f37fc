// Loaded before a process of `start`: stops it (SIGSTOP) at one step of its broker, the first time that `x` is granted there.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'
import threads, { isMainThread, type WorkerOptions, workerData } from 'node:worker_threads'

/** Before or after the grant is in the journal, or when everything has been checked and it only has to be sent. */
export type Step = 'writing' | 'written' | 'sending'

/** The step, as the process finds it in its environment. */
export const variable = 'HOLDFAST_TEST_STOP'

interface Orders {
  readonly step: Step
  /** The thread's own file. */
  readonly file: string
}

let hasStopped = false

function stop(): void {
  hasStopped = true
  process.kill(process.pid, 'SIGSTOP')
  // The signal stops the other threads first; this one is past the wait only when the process goes on.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
}

function inThread({ step, file }: Orders): Promise<unknown> {
  const { writeSync } = fs
  let isWritten = false
  const isGrant = (data: unknown) => !hasStopped && String(data).includes('["g","x"')
  fs.writeSync = ((...args: Parameters<typeof writeSync>) => {
    const isIt = isGrant(args[1])
    if (isIt && step === 'writing') stop()
    const written = writeSync(...args)
    isWritten ||= isIt
    if (isIt && step === 'written') stop()
    return written
  }) as typeof writeSync
  const { write } = Socket.prototype
  Socket.prototype.write = function (this: Socket, ...args: unknown[]) {
    if (isWritten && !hasStopped && step === 'sending' && String(args[0]).includes('"granted"')) stop()
    return Reflect.apply(write, this, args) as boolean
  }
  syncBuiltinESMExports()
  return import(file)
}

const step = process.env[variable] as Step | undefined
if (!isMainThread) await inThread(workerData as Orders)
else if (step) {
  const at: Step = step
  const { Worker } = threads
  threads.Worker = class extends Worker {
    constructor(file: string | URL, options?: WorkerOptions) {
      const orders: Orders = { step: at, file: String(file) }
      super(new URL(import.meta.url), { ...options, workerData: orders })
    }
  }
  syncBuiltinESMExports()
}
