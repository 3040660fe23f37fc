// One test file in a process of its own: what it printed, its totals, and the processor time it took with its children.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { TestFile } from './test-files.js'

export type Totals = Readonly<Record<string, number>>

export interface FileResult {
  readonly file: TestFile
  /** What the tests printed, without the closing lines. */
  readonly text: string
  /** The errors of the failed tests; empty if all passed. */
  readonly failures: string
  readonly totals: Totals
  /** Milliseconds by the wall, and of processor time with those of its children that it waited for. */
  readonly took: number
  readonly worked: number
}

export const kinds: readonly string[] = ['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo']

export class TestProcess {
  readonly file: TestFile
  readonly result: Promise<FileResult>
  readonly #child: ChildProcess
  readonly #began = performance.now()
  #text = ''
  #worked = 0
  #hung: string | undefined
  /** By the clock of the caller; set whenever the file printed something. */
  lastHeard: number

  constructor(file: TestFile, only: string | undefined, now: () => number) {
    this.file = file
    this.lastHeard = now()
    const pattern = only === undefined ? [] : [`--test-name-pattern=${only}`]
    const args = ['--enable-source-maps', '--test-reporter=spec', ...pattern, file.built]
    this.#child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#text += text
        this.lastHeard = now()
      })
    this.result = this.#ended()
  }

  /** Reads how much processor time it took so far: after its end nobody can tell. */
  measure(): void {
    try {
      const stat = readFileSync(`/proc/${this.#child.pid}/stat`, 'latin1')
      const ticks = stat
        .slice(stat.lastIndexOf(')') + 2)
        .split(' ')
        .slice(11, 15)
      this.#worked = Math.max(this.#worked, 10 * ticks.reduce((sum, count) => sum + Number(count), 0))
    } catch {}
  }

  /** Ends a file that makes no progress any more. */
  hangs(why: string): void {
    if (this.#hung !== undefined) return
    this.#hung = why
    this.kill()
  }

  /** With the processes it started: a group of their own. */
  kill(signal: NodeJS.Signals = 'SIGTERM'): void {
    const { pid } = this.#child
    if (pid === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null) return
    try {
      process.kill(-pid, signal)
    } catch {}
    if (signal !== 'SIGKILL') setTimeout(() => this.kill('SIGKILL'), 5_000)
  }

  async #ended(): Promise<FileResult> {
    const [code, signal] = (await once(this.#child, 'close')) as [number | null, string | null]
    const { body, failures, totals } = takeApart(this.#text)
    const failed = (totals?.['fail'] ?? 0) + (totals?.['cancelled'] ?? 0)
    const broken = totals === undefined || (code !== 0 && failed === 0)
    const end = this.#hung ?? (signal === null ? `ended with ${code}` : `was ended by ${signal}`)
    const complaint = `✖ ${this.file.source} ${end}${totals === undefined ? ', without closing lines' : ''}`
    return {
      file: this.file,
      text: body,
      failures: broken ? `${complaint}\n${failures}` : failures,
      totals: broken ? added(totals ?? {}, { tests: 1, fail: 1 }) : totals,
      took: performance.now() - this.#began,
      worked: this.#worked,
    }
  }
}

interface Parts {
  readonly body: string
  readonly failures: string
  readonly totals: Totals | undefined
}

/** Splits the output of node's reporter `spec` into what the tests said, the failures, and the totals. */
export function takeApart(text: string): Parts {
  const at = [...text.matchAll(/^ℹ tests \d+$/gm)].at(-1)?.index
  if (at === undefined) return { body: text, failures: '', totals: undefined }
  const rest = text.slice(at).split('\n')
  const totals: Record<string, number> = {}
  let line = 0
  for (; line < rest.length; line++) {
    const found = /^ℹ (\w+) ([\d.]+)$/.exec(rest[line] ?? '')
    if (found === null) break
    if (kinds.includes(found[1] ?? '')) totals[found[1] ?? ''] = Number(found[2])
  }
  const after = rest.slice(line).join('\n')
  const named = after.search(/^✖ failing tests:$/m)
  const failed = (totals['fail'] ?? 0) + (totals['cancelled'] ?? 0) > 0
  // What the file wrote to stderr may arrive after its closing lines.
  if (named < 0 && !failed) return { body: `${text.slice(0, at)}${after}`, failures: '', totals }
  const failures = after
    .slice(Math.max(named, 0))
    .replace(/^✖ failing tests:\n/, '')
    .trim()
  return { body: text.slice(0, at), failures, totals }
}

export function added(one: Totals, other: Totals): Totals {
  return Object.fromEntries(kinds.map((kind) => [kind, (one[kind] ?? 0) + (other[kind] ?? 0)]))
}
