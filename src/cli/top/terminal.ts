/** A terminal taken over for a full-screen view, and given back as it was, however the process ends. */
import { writeSync } from 'node:fs'
import { emitKeypressEvents } from 'node:readline'
import type { Screen } from './draw.js'
import { Frames } from './frames.js'
import type { Key } from './state.js'

// Lines do not wrap: a character that is wider here than was thought must not push the screen up.
const enter = '\x1b[?1049h\x1b[?25l\x1b[?7l'
const leave = '\x1b[?7h\x1b[?25h\x1b[?1049l'

export interface Terminal {
  readonly screen: Screen
  /**
   * Shows the lines that `draw` returns; sends only those that changed. Where the terminal has not taken the frame before, `draw` is called once
   * it has, and only the newest one: a slow line shows fewer frames, none of them late.
   */
  show(draw: () => readonly string[]): void
  /** Resolves once the terminal has taken everything, or takes no more. */
  close(): Promise<void>
}

export interface Listeners {
  key(key: Key): void
  resized(): void
  /** Asked to end by a signal. SIGHUP also: the terminal is gone. May be called again. */
  ended(signal: NodeJS.Signals): void
}

export function openTerminal(
  input: NodeJS.ReadStream,
  output: NodeJS.WriteStream & { readonly fd: number },
  on: Listeners,
): Terminal {
  const frames = new Frames(output)
  let closed: Promise<void> | undefined
  const keypress = (text: string | undefined, key: { name?: string; ctrl?: boolean } = {}) =>
    on.key({ name: key.name, ctrl: key.ctrl === true, text })
  const resize = () => {
    frames.clear()
    on.resized()
  }
  const gone = () => on.ended('SIGHUP')
  const signals = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const
  const giveBack = () => {
    input.off('keypress', keypress)
    input.off('end', gone)
    output.off('resize', resize)
    for (const signal of signals) process.off(signal, on.ended)
    process.off('exit', atExit)
    if (input.isTTY) input.setRawMode(false)
    input.pause()
  }
  // Nothing that is written to a stream now would still be sent.
  const atExit = () => {
    giveBack()
    writeSync(output.fd, leave)
  }
  const close = () => {
    if (closed === undefined) {
      giveBack()
      closed = frames.end(leave)
    }
    return closed
  }
  emitKeypressEvents(input)
  input.on('keypress', keypress)
  input.on('end', gone)
  // They stay: what is written last to a terminal that is gone fails, too.
  input.on('error', gone)
  output.on('error', gone)
  output.on('resize', resize)
  for (const signal of signals) process.on(signal, on.ended)
  process.on('exit', atExit)
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
    show: (draw) => frames.show(draw),
    close,
  }
}
