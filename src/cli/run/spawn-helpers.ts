/** Starts the helper processes of the supervisor: lock process and watcher. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { withoutCallers } from './descriptors.js'
import { watcher } from './scripts.js'

export interface GroupWatcher {
  /** The lock process holds it open, too. */
  readonly line: Socket
  /** From now on, `group` ends with us. */
  watch(group: number): void
  /** Nothing is left to end. */
  dismiss(): void
}

/** The last resort (see `scripts.ts`): ends the command if both supervisor and lock process were killed. `undefined` without /bin/sh. */
function startWatcher(): GroupWatcher | undefined {
  if (process.platform === 'win32' || !existsSync('/bin/sh')) return undefined
  // Its working directory must not keep a file system from being unmounted; its name must not match `pkill -f holdfast`.
  const child = spawn('/bin/sh', ['-c', watcher], {
    cwd: '/',
    detached: true,
    stdio: withoutCallers(['pipe', 'ignore', 'ignore']),
  })
  child.on('error', () => undefined)
  child.unref()
  const line = child.stdin as unknown as Socket
  line.on('error', () => undefined)
  line.unref()
  return {
    line,
    watch: (group) => void line.write(`${group}\n`),
    dismiss: () => void line.end('over\n'),
  }
}

export interface HelperProcesses {
  readonly watcher: GroupWatcher | undefined
  readonly lockProcess: ChildProcess
}

/** Started before it is known whether there is anything to run: the lock process does nothing until it receives a claim. */
let early: HelperProcesses | undefined

export function startEarly(): void {
  early = start()
  // startHelpers() passes them to the supervisor, which adds its own listener.
  early.lockProcess.on('error', dismissEarly)
}

/** The helper processes of one run. */
export function startHelpers(): HelperProcesses {
  const ready = early
  early = undefined
  if (ready === undefined) return start()
  ready.lockProcess.off('error', dismissEarly)
  if (ready.lockProcess.connected) return ready
  dismiss(ready)
  return start()
}

/** Called if there is nothing to run. */
export function dismissEarly(): void {
  if (early !== undefined) dismiss(early)
  early = undefined
}

function dismiss({ watcher, lockProcess }: HelperProcesses): void {
  watcher?.dismiss()
  leave(lockProcess)
}

/** Whatever it is doing for us ends. It may have broker duties to hand over, which nobody waits for. */
export function leave(lockProcess: ChildProcess): void {
  if (lockProcess.connected) lockProcess.disconnect()
  lockProcess.unref()
}

function start(): HelperProcesses {
  const watcher = startWatcher()
  return { watcher, lockProcess: startLockProcess(watcher) }
}

/** Runs in its own session: nothing done to the supervisor's group or terminal reaches it. */
export function startLockProcess(watcher: GroupWatcher | undefined): ChildProcess {
  // The lock process holds the watcher's pipe open as fd 4.
  return fork(fileURLToPath(new URL('./lock-process.js', import.meta.url)), [], {
    detached: true,
    serialization: 'advanced',
    execArgv: [],
    stdio: withoutCallers(['ignore', 'ignore', 'ignore', 'ipc', watcher?.line ?? 'ignore']),
  })
}
