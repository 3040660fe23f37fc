// What every test file ends with: `after(leakCheck)`, registered last, so that it runs after the file's own cleaning up.
//
// Node tells which resources keep the process alive, but not the unreferenced ones, and most of ours are: a lease must
// not keep a process running. So timers are counted where they are made, and sockets, workers and child processes where
// Node announces them; each is remembered with the stack that made it, which is what one wants to know.
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { syncBuiltinESMExports } from 'node:module'
import { Socket } from 'node:net'
import timers from 'node:timers'
import type { Worker } from 'node:worker_threads'
import './end-at-once.js'

type Kind = 'timer' | 'socket' | 'worker' | 'child process'
interface Made {
  readonly kind: Kind
  readonly by: { readonly stack?: string }
}

/** Only a leak takes so long, on a busy machine either. */
const settleWithin = 10_000
const made = new Map<object, Made>()
/** Of everything ever made: a socket that is destroyed and not closed is in `made` no longer. */
const makers = new WeakMap<object, Made['by']>()
const warnings: string[] = []
const sleep = (ms: number): Promise<void> => new Promise((resolve) => void plainSetTimeout(resolve, ms))
let sweepAt = 1000

/** Node keeps `destroyed` to itself on timers; it is set once a timer was cleared or has fired for the last time. */
const alive: Record<Kind, (thing: object) => boolean> = {
  timer: (thing) => !(thing as { _destroyed?: boolean })._destroyed,
  socket: (thing) => !(thing as Socket).destroyed,
  worker: (thing) => (thing as Worker).threadId !== -1,
  'child process': (thing) => {
    const child = thing as ChildProcess
    return child.pid !== undefined && child.exitCode === null && child.signalCode === null
  },
}

function remember<T extends object>(kind: Kind, thing: T): T {
  const by: { stack?: string } = {}
  Error.captureStackTrace(by, remember)
  made.set(thing, { kind, by })
  makers.set(thing, by)
  if (made.size > sweepAt) {
    for (const [old, { kind }] of made) if (!alive[kind](old)) made.delete(old)
    sweepAt = Math.max(1000, made.size * 2)
  }
  return thing
}

const plainSetTimeout = timers.setTimeout
for (const name of ['setTimeout', 'setInterval'] as const) {
  const plain = timers[name] as (...args: unknown[]) => NodeJS.Timeout
  const counted = (...args: unknown[]) => remember('timer', plain(...args))
  // The promise form hangs on the function as a property; `util.promisify(setTimeout)` must still find it.
  Object.defineProperties(counted, Object.getOwnPropertyDescriptors(plain))
  Object.assign(timers, { [name]: counted })
  Object.assign(globalThis, { [name]: counted })
}
syncBuiltinESMExports()

subscribe('net.client.socket', (event) => remember('socket', (event as { socket: Socket }).socket))
subscribe('net.server.socket', (event) => remember('socket', (event as { socket: Socket }).socket))
subscribe('worker_threads', (event) => remember('worker', (event as { worker: Worker }).worker))
subscribe('child_process', (event) => remember('child process', (event as { process: ChildProcess }).process))
process.on('warning', (warning) => {
  if (warning.name === 'MaxListenersExceededWarning') warnings.push(`listeners: ${warning.message}`)
})

// Both are opened at first use; opened later they would look like leaked pipes.
void process.stdout
void process.stderr
const baseline = tally()

/**
 * Fails unless all that this file's tests made is gone, in the end: nothing beyond what was there when this
 * module was loaded keeps the process alive, no timer is armed, no socket, worker or child process left, and no emitter
 * was warned about for its number of listeners.
 */
export async function leakCheck(): Promise<void> {
  try {
    await settled()
  } catch (leak) {
    // A leak that keeps the process alive would hang the run instead of failing it.
    plainSetTimeout(() => process.exit(1), settleWithin).unref()
    throw leak
  }
}

/** The check itself, for those who continue afterwards. */
export async function settled(within: number = settleWithin): Promise<void> {
  const deadline = performance.now() + within
  let found = leaks()
  while (found.length > 0 && performance.now() < deadline) {
    await sleep(20)
    found = leaks()
  }
  if (found.length > 0) assert.fail(`left behind after the tests:\n${found.join('\n')}`)
}

/** What is left right now, one line each, with the stack that made it where that is known. */
export function leaks(): string[] {
  const found = [...warnings]
  for (const [thing, { kind, by }] of made) {
    const frames = ownFrames(by.stack)
    if (alive[kind](thing) && frames !== undefined) found.push(`a ${kind}, made${frames}`)
  }
  for (const [kind, count] of tally()) {
    const extra = count - (baseline.get(kind) ?? 0)
    if (extra > 0) found.push(`${extra} × ${kind} keeping the process alive`)
  }
  for (const socket of destroyedOnly())
    found.push(`a socket, destroyed but not closed, made${frames(socket)}`)
  return found
}

/** Node takes these sockets for closed, and the system does not. */
function destroyedOnly(): Socket[] {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): unknown[] }
  const isLeft = (one: unknown): one is Socket => one instanceof Socket && one.destroyed
  return handles.call(process).filter(isLeft)
}

function frames(thing: object): string {
  return ownFrames(makers.get(thing)?.stack) ?? ' by Node for itself'
}

function tally(): Map<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** The stack without Node's own frames; `undefined` if nothing else is in it, for then Node made it for itself. */
function ownFrames(stack = ''): string | undefined {
  const frames = stack.split('\n').filter((line) => line.startsWith('    at '))
  const own = frames.filter((line) => !line.includes('node:') && !/\/support\/leaks\.[jt]s/.test(line))
  if (own.length > 0) return `\n${own.slice(0, 6).join('\n')}`
  return frames.some((line) => !line.includes('node:internal')) ? ' by the runtime' : undefined
}
