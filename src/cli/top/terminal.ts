/** A terminal taken over for a full-screen view, and given back as it was, however the process ends. */
import { emitKeypressEvents } from 'node:readline'
import type { Screen } from './draw.js'
import type { Key } from './state.js'

// Lines do not wrap: a character that is wider here than was thought must not push the screen up.
const enter = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const leave = '\x1b[?7h\x1b[?25h\x1b[?1049l'

export interface Terminal {
  readonly screen: Screen
  /** Shows these lines; sends only those that changed. */
  show(lines: readonly string[]): void
  close(): void
}

export interface Listeners {
  key(key: Key): void
  resized(): void
  /** Asked to end by a signal. SIGHUP also: the terminal is gone. May be called again. */
  ended(signal: NodeJS.Signals): void
}

export function openTerminal(input: NodeJS.ReadStream, output: NodeJS.WriteStream, on: Listeners): Terminal {
  let displayed: readonly string[] = []
  let closed = false
  const keypress = (text: string | undefined, key: { name?: string; ctrl?: boolean } = {}) =>
    on.key({ name: key.name, ctrl: key.ctrl === true, text })
  const resize = () => {
    displayed = []
    output.write('\x1b[2J')
    on.resized()
  }
  const gone = () => on.ended('SIGHUP')
  const signals = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const
  const close = () => {
    if (closed) return
    closed = true
    input.off('keypress', keypress)
    input.off('end', gone)
    output.off('resize', resize)
    for (const signal of signals) process.off(signal, on.ended)
    process.off('exit', close)
    if (input.isTTY) input.setRawMode(false)
    input.pause()
    output.write(leave)
  }
  emitKeypressEvents(input)
  input.on('keypress', keypress)
  input.on('end', gone)
  // They stay: what is written last to a terminal that is gone fails, too.
  input.on('error', gone)
  output.on('error', gone)
  output.on('resize', resize)
  for (const signal of signals) process.on(signal, on.ended)
  process.on('exit', close)
  input.setRawMode(true)
  input.resume()
  output.write(enter)
  return {
    get screen() {
      return {
        columns: output.columns || 80,
        lines: output.rows || 24,
        style: process.env.NO_COLOR === undefined,
      }
    },
    show(lines) {
      if (closed) return
      // Erased before, not behind: at the right edge the last character would go, too.
      const changed = lines.flatMap((line, i) =>
        line === displayed[i] ? [] : [`\x1b[${i + 1};1H\x1b[2K${line}`],
      )
      displayed = lines
      if (changed.length > 0) output.write(changed.join(''))
    },
    close,
  }
}
