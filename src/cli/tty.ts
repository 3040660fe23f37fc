/** What the terminal lets us do, and the one line on it that is written over and over. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * May this process read from its terminal now? False for a job started with `&` and for one without a terminal. Not known
 * to Node, so it is read from the kernel: the foreground group of the terminal is that of this process.
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
  // The name in parentheses may itself hold spaces and parentheses.
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { group: Number(group), foreground: Number(foreground) }
}

function fromPs(): JobControl {
  const { stdout } = spawnSync('ps', ['-o', 'pgid=,tpgid=', '-p', `${process.pid}`], { encoding: 'utf8' })
  const [group, foreground] = stdout.trim().split(/\s+/)
  return { group: Number(group), foreground: Number(foreground) }
}

/** One line of a terminal, replaced by each `show` and gone after `clear`. */
export interface StatusLine {
  show(text: string): void
  clear(): void
}

export function statusLine(stream: NodeJS.WriteStream): StatusLine {
  let shown = false
  return {
    show: (text) => {
      // A line that wraps could not be taken back, so it is cut.
      stream.write(`\r\x1b[K${cut(text, (stream.columns || 80) - 1)}`)
      shown = true
    },
    clear: () => {
      if (shown) stream.write('\r\x1b[K')
      shown = false
    },
  }
}

/** At most `width` characters. */
export function cut(text: string, width: number): string {
  const chars = [...text]
  return chars.length <= width ? text : `${chars.slice(0, Math.max(0, width - 1)).join('')}…`
}
