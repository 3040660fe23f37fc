/**
 * Records events as they happen. Uses one `writeSync` per event to a file opened for appending: everything a process did until it was
 * killed is in the page cache, whatever kills it. Several processes may share a file; one file each is faster.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Entry, Event } from './event.js'
import { createHistory, type History } from './history.js'

export interface Recorder {
  /** Identifies this recorder in the history: process id and a random part. */
  readonly client: string
  /** The history's clock: monotonic nanoseconds, shared by all processes of the machine. */
  now(): bigint
  /** Records one event, stamped with the time of the call, or with `t` if the time is already known. */
  write(entry: Entry, t?: bigint): void
  /** Marks the start of a fault; the returned function marks its end. `target` is the affected process. */
  fault(kind: string, target?: number): () => void
  /** Idempotent. Nothing is written afterwards. */
  close(): void
}

export interface RecorderOptions {
  /** Shown before the process id in stories and pictures. @default 'client' */
  readonly label?: string
}

/** An event as stored in a file. */
type Line = Omit<Event, 't' | 'until'> & { readonly t: string; readonly until?: string }

/** @throws Error if the file cannot be opened for appending. */
export function recorder(path: string, options: RecorderOptions = {}): Recorder {
  const file = openSync(path, 'a')
  let open = true
  const write = (line: Line) => {
    if (open) writeSync(file, `${JSON.stringify(line)}\n`)
  }
  return recorderTo(write, options, () => {
    if (open) closeSync(file)
    open = false
  })
}

export interface MemoryRecorder extends Recorder {
  history(): History
}

/** Keeps the events in this process: for tests and demonstrations that kill no process. */
export function memoryRecorder(options: RecorderOptions = {}): MemoryRecorder {
  const lines: Line[] = []
  let open = true
  const write = (line: Line) => {
    if (open) lines.push(line)
  }
  const recorder = recorderTo(write, options, () => {
    open = false
  })
  return { ...recorder, history: () => joined(lines) }
}

function recorderTo(put: (line: Line) => void, options: RecorderOptions, close: () => void): Recorder {
  const client = `${options.label ?? 'client'}-${process.pid}-${randomBytes(3).toString('hex')}`
  let faults = 0
  const now = () => process.hrtime.bigint()
  const write = (entry: Entry, t = now()) => {
    const { until, ...rest } = entry
    const line = { t: `${t}`, pid: process.pid, client, ...rest }
    put(until === undefined ? line : { ...line, until: `${until}` })
  }
  const fault = (kind: string, target?: number) => {
    const attempt = `${client}:fault:${++faults}`
    const about = { op: 'fault', kind, attempt, ...(target !== undefined && { target }) } as const
    write({ ...about, phase: 'invoke' })
    return () => write({ ...about, phase: 'ok' })
  }
  return { client, now, write, fault, close }
}

/**
 * Reads the given files, and every `.jsonl` file of the given folders, as one history. The last line of a file may be torn: its writer was
 * killed or ran out of disk.
 * @throws SyntaxError with file and line if another line is broken.
 */
export function readHistory(...paths: readonly string[]): History {
  const lines: Line[] = []
  for (const path of paths) {
    const files = statSync(path).isDirectory()
      ? readdirSync(path)
          .filter((file) => file.endsWith('.jsonl'))
          .sort()
          .map((file) => join(path, file))
      : [path]
    for (const file of files) readLines(file, lines)
  }
  return joined(lines)
}

function readLines(file: string, into: Line[]): void {
  const texts = readFileSync(file, 'utf8').split('\n')
  for (const [i, text] of texts.entries()) {
    if (text === '') continue
    const line = parse(text)
    if (line !== undefined) into.push(line)
    else if (i < texts.length - 1)
      throw new SyntaxError(`${file}:${i + 1} is not an event of a history: ${text.slice(0, 80)}`)
  }
}

function parse(text: string): Line | undefined {
  try {
    const line = JSON.parse(text)
    return typeof line?.t === 'string' && typeof line.op === 'string' ? line : undefined
  } catch {
    return undefined
  }
}

/** On a machine with a long uptime, clock readings exceed the exact range of a number; differences do not. */
function joined(lines: readonly Line[]): History {
  const times = lines.map((line) => BigInt(line.t))
  let origin = times[0] ?? 0n
  for (const t of times) if (t < origin) origin = t
  const since = (t: bigint) => Number(t - origin)
  const events = lines.map((line, i): Event => {
    const { until, ...rest } = line
    const event = { ...rest, t: since(times[i] ?? 0n) }
    return until === undefined ? event : { ...event, until: since(BigInt(until)) }
  })
  return createHistory(events)
}
