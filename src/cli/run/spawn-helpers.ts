/** Starts the helper processes of the front: keeper and watcher. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { withoutCallers } from './descriptors.js'
import { watcher } from './scripts.js'

export interface Watcher {
  /** The keeper holds it open, too. */
  readonly line: Socket
  /** From now on, `group` ends with us. */
  watch(group: number): void
  /** Nothing is left to end. */
  dismiss(): void
}

/** The last resort (see `scripts.ts`): ends the command if both front and keeper were killed. `undefined` without /bin/sh. */
function startWatcher(): Watcher | undefined {
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

export interface Beside {
  readonly watcher: Watcher | undefined
  readonly keeper: ChildProcess
}

/** Started before it is known whether there is anything to run: the keeper does nothing until it receives a claim. */
let early: Beside | undefined

export function startEarly(): void {
  early = start()
  // startBeside() passes them to the front, which adds its own listener.
  early.keeper.on('error', dismissEarly)
}

/** The helper processes of one run. */
export function startBeside(): Beside {
  const ready = early
  early = undefined
  if (ready === undefined) return start()
  ready.keeper.off('error', dismissEarly)
  if (ready.keeper.connected) return ready
  dismiss(ready)
  return start()
}

/** Called if there is nothing to run. */
export function dismissEarly(): void {
  if (early !== undefined) dismiss(early)
  early = undefined
}

function dismiss({ watcher, keeper }: Beside): void {
  watcher?.dismiss()
  if (keeper.connected) keeper.disconnect()
  keeper.unref()
}

function start(): Beside {
  const watcher = startWatcher()
  return { watcher, keeper: startKeeper(watcher) }
}

/** Runs in its own session: nothing done to the front's group or terminal reaches it. */
function startKeeper(watcher: Watcher | undefined): ChildProcess {
  // The keeper holds the watcher's pipe open as fd 4.
  return fork(fileURLToPath(new URL('./lock-process.js', import.meta.url)), [], {
    detached: true,
    serialization: 'advanced',
    execArgv: [],
    stdio: withoutCallers(['ignore', 'ignore', 'ignore', 'ipc', watcher?.line ?? 'ignore']),
  })
}
