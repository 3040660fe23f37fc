/** Starts the last resort (see `scripts.ts`): a process that ends the command when both front and keeper were killed. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'
import { watcher } from './scripts.js'

export interface Watcher {
  /** To be held open by the keeper, too. */
  readonly line: Socket
  /** From now on `group` is ended with us. */
  watch(group: number): void
  /** It is over: nothing is ended any more. */
  dismiss(): void
}

/** `undefined` where there is no /bin/sh. */
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
