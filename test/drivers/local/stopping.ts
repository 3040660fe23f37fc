// Loaded before a process of `start`: stops it (SIGSTOP), once, at one step of its broker: while `x` is granted there, or when a
// file is about to become the journal.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'
import threads, { isMainThread, type WorkerOptions, workerData } from 'node:worker_threads'

/** Before or after the grant is in the journal, or when everything has been checked and it only has to be sent. */
export type GrantStep = 'writing' | 'written' | 'sending'
/** The first journal of this broker, or the next one. */
export type JournalStep = 'beginning' | 'rewriting'
/** It is published, and is about to remove the files of earlier brokers. */
export type SweepStep = 'sweeping'
export type Step = GrantStep | JournalStep | SweepStep

/** The step, as the process finds it in its environment. */
export const variable = 'HOLDFAST_TEST_STOP'

interface Orders {
  readonly step: Step
  /** The thread's own file. */
  readonly file: string
  /** 1 once the process has been stopped. Shared, for a process may have several brokers, one after the other. */
  readonly stopped: Int32Array<SharedArrayBuffer>
}

function stop(stopped: Int32Array<SharedArrayBuffer>): void {
  if (Atomics.exchange(stopped, 0, 1) === 1) return
  process.kill(process.pid, 'SIGSTOP')
  // The signal stops the other threads first; this one is past the wait only when the process goes on.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
}

function stopAtGrant(step: GrantStep, stopped: Int32Array<SharedArrayBuffer>): void {
  const { writeSync } = fs
  let isWritten = false
  fs.writeSync = ((...args: Parameters<typeof writeSync>) => {
    const isIt = String(args[1]).includes('["g","x"')
    if (isIt && step === 'writing') stop(stopped)
    const written = writeSync(...args)
    isWritten ||= isIt
    if (isIt && step === 'written') stop(stopped)
    return written
  }) as typeof writeSync
  const { write } = Socket.prototype
  Socket.prototype.write = function (this: Socket, ...args: unknown[]) {
    if (isWritten && step === 'sending' && String(args[0]).includes('"granted"')) stop(stopped)
    return Reflect.apply(write, this, args) as boolean
  }
}

function stopAtJournal(step: JournalStep, stopped: Int32Array<SharedArrayBuffer>): void {
  let puts = 0
  for (const how of ['renameSync', 'linkSync'] as const) {
    const put = fs[how]
    fs[how] = (from, to) => {
      if (String(to).endsWith('/journal') && ++puts === (step === 'beginning' ? 1 : 2)) stop(stopped)
      put(from, to)
    }
  }
}

function stopAtSweep(stopped: Int32Array<SharedArrayBuffer>): void {
  const { linkSync, readdirSync } = fs
  let looks = 0
  fs.linkSync = (from, to) => {
    linkSync(from, to)
    if (/\/broker-\d+$/.test(String(to))) looks = 2
  }
  // The first look is for a newer broker.
  fs.readdirSync = ((...args: Parameters<typeof readdirSync>) => {
    const files = readdirSync(...args)
    if (looks > 0 && --looks === 0) stop(stopped)
    return files
  }) as typeof readdirSync
}

function inThread({ step, file, stopped }: Orders): Promise<unknown> {
  if (step === 'sweeping') stopAtSweep(stopped)
  else if (step === 'beginning' || step === 'rewriting') stopAtJournal(step, stopped)
  else stopAtGrant(step, stopped)
  syncBuiltinESMExports()
  return import(file)
}

const step = process.env[variable] as Step | undefined
if (!isMainThread) await inThread(workerData as Orders)
else if (step) {
  const at: Step = step
  const { Worker } = threads
  const stopped = new Int32Array(new SharedArrayBuffer(4))
  threads.Worker = class extends Worker {
    constructor(file: string | URL, options?: WorkerOptions) {
      const orders: Orders = { step: at, file: String(file), stopped }
      super(new URL(import.meta.url), { ...options, workerData: orders })
    }
  }
  syncBuiltinESMExports()
}
