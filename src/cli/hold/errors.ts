/**
 * The standard error of the script, where `holdfast hold` has the same: there the process that it leaves behind says why it ends the script.
 */
import { closeSync, fstatSync, statSync, write } from 'node:fs'
import type { Owner } from './owner.js'

/** Where the process that is left behind has it open. */
const descriptor = 4

/**
 * May our standard error stay open for as long as the script runs? A shell that reads a pipe waits for all who have it open, as in
 * `$(holdfast hold x --for $$ 2>&1)`. So of pipes and sockets only those are kept that the script itself has open; that is known on Linux.
 */
export function mayKeepErrors({ pid }: Owner): boolean {
  try {
    const own = fstatSync(2)
    if (own.isFile() || own.isCharacterDevice()) return true
    return [1, 2].some((fd) => {
      const { dev, ino } = statSync(`/proc/${pid}/fd/${fd}`)
      return dev === own.dev && ino === own.ino
    })
  } catch {
    return false
  }
}

interface ScriptErrors {
  write(line: string): void
  close(): void
}

/** Neither waits: the reader of that pipe may have stopped. */
export function scriptErrors(): ScriptErrors {
  let underWay = 0
  let closed = false
  const closeUnused = () => {
    if (closed && underWay === 0) closeSync(descriptor)
  }
  return {
    write: (line) => {
      if (closed) return
      underWay++
      write(descriptor, line, () => {
        underWay--
        closeUnused()
      })
    },
    close: () => {
      if (closed) return
      closed = true
      closeUnused()
    },
  }
}
