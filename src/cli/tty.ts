/** What the terminal allows, and a status line that is rewritten in place. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * May this process read from its terminal now? False for a job started with `&`, and for one without a terminal. Node does not know this,
 * so the kernel is asked: is the foreground group of the terminal that of this process?
 */
export function inForeground(): boolean {
  try {
    const { group, foreground } = process.platform === 'linux' ? fromProc() : fromPs()
    return group === foreground
  } catch {
    return false
  }
}

interface JobControl {
  readonly group: number
  /** -1: no terminal. */
  readonly foreground: number
}

function fromProc(): JobControl {
  const stat = readFileSync('/proc/self/stat', 'utf8')
  // The name in parentheses may itself contain spaces and parentheses.
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { group: Number(group), foreground: Number(foreground) }
}

function fromPs(): JobControl {
  const { stdout } = spawnSync('ps', ['-o', 'pgid=,tpgid=', '-p', `${process.pid}`], { encoding: 'utf8' })
  const [group, foreground] = stdout.trim().split(/\s+/)
  return { group: Number(group), foreground: Number(foreground) }
}

/** One line of a terminal: each `show` replaces it, `clear` removes it. */
export interface StatusLine {
  show(text: string): void
  clear(): void
}

export function statusLine(stream: NodeJS.WriteStream): StatusLine {
  let shown = false
  return {
    show: (text) => {
      // A line that wraps could not be erased, so it is cut.
      stream.write(`\r\x1b[K${cut(text, (stream.columns || 80) - 1)}`)
      shown = true
    },
    clear: () => {
      if (shown) stream.write('\r\x1b[K')
      shown = false
    },
  }
}

/** Truncates to `width` characters. */
export function cut(text: string, width: number): string {
  const chars = [...text]
  return chars.length <= width ? text : `${chars.slice(0, Math.max(0, width - 1)).join('')}…`
}
