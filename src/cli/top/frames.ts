/** Frames on their way to a terminal: at most one is being written, and at most one is drawn after it, however slow the line is. */
import type { Writable } from 'node:stream'

/** How long `end` waits for a terminal that takes no more, in ms. */
const patience = 1_000

export class Frames {
  readonly #output: Writable
  #displayed: readonly string[] = []
  #draw: (() => readonly string[]) | undefined
  #clear = false
  /** The line is not free, or will be written to in this turn of the event loop. */
  #busy = false
  #ended = false

  constructor(output: Writable) {
    this.#output = output
    setBlocking(output, false)
  }

  /** Everything that was displayed is gone. */
  clear(): void {
    this.#displayed = []
    this.#clear = true
  }

  show(draw: () => readonly string[]): void {
    if (this.#ended) return
    this.#draw = draw
    if (this.#busy) return
    this.#busy = true
    // Many keys that come at once are one frame.
    setImmediate(() => this.#next())
  }

  /** Sends `last` behind what is being written. Resolves once all is sent, or after a second. */
  async end(last: string): Promise<void> {
    this.#ended = true
    this.#draw = undefined
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, patience)
    })
    const sent = new Promise<void>((resolve) => this.#output.write(last, () => resolve()))
    await Promise.race([sent, late])
    clearTimeout(timer)
    if (this.#output.writableLength === 0) setBlocking(this.#output, true)
  }

  #next(): void {
    const lines = this.#draw?.()
    this.#draw = undefined
    const text = lines === undefined ? '' : this.#changes(lines)
    if (text === '') this.#busy = false
    else
      this.#output.write(text, () => {
        if (this.#draw === undefined) this.#busy = false
        else this.#next()
      })
  }

  #changes(lines: readonly string[]): string {
    // Erased before, not behind: at the right edge the last character would go, too.
    const changed = lines.flatMap((line, i) =>
      line === this.#displayed[i] ? [] : [`\x1b[${i + 1};1H\x1b[2K${line}`],
    )
    if (this.#clear) changed.unshift('\x1b[2J')
    this.#clear = false
    this.#displayed = lines
    return changed.join('')
  }
}

/**
 * Node makes every write to a terminal block the process until the terminal has taken it. One that takes nothing, because ssh is stalled or tmux
 * is stopped, would leave no signal and no key obeyed. Where a Node has no such method, writes go on blocking.
 */
function setBlocking(output: Writable, on: boolean): void {
  const { _handle } = output as { _handle?: { setBlocking?: (on: boolean) => void } | null }
  _handle?.setBlocking?.(on)
}
