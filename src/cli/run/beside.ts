/** Starts the processes that stand beside the front. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { watcher } from './scripts.js'

export interface Watcher {
  /** To be held open by the keeper, too. */
  readonly line: Socket
  /** From now on `group` is ended with us. */
  watch(group: number): void
  /** It is over: nothing is ended any more. */
  dismiss(): void
}

/** The last resort (see `scripts.ts`): ends the command when both front and keeper were killed. `undefined` where there is no /bin/sh. */
export function startWatcher(): Watcher | undefined {
  if (process.platform === 'win32' || !existsSync('/bin/sh')) return undefined
  // Its working directory must not keep a file system from being unmounted, its name not match `pkill -f holdfast`.
  const child = spawn('/bin/sh', ['-c', watcher], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
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

/** In a session of its own: nothing that is done to the front's group or terminal reaches it. */
export function startKeeper(watcher: Watcher | undefined): ChildProcess {
  // Its fd 4 is the watcher's line, to be held open.
  return fork(fileURLToPath(new URL('./keeper.js', import.meta.url)), [], {
    detached: true,
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc', watcher?.line ?? 'ignore'],
  })
}
