/**
 * Election by files, where there are no abstract names: on macOS, and in containers that share a volume but no namespaces. Also
 * where another user's process bound the name before us: see `broker-thread.ts`.
 *
 * A socket file alone cannot elect: it stays behind when its owner is killed, and a process that removes a stale one may remove
 * the fresh one that another process has just created. So no name is ever used twice. A broker binds a socket with a random name,
 * listens, and then publishes it as `broker-<n+1>`, a small file that appears whole or not at all, and only if no other process
 * was first. It may publish only when the broker of `broker-<n>` is over: its process has ended, or, on Linux, the kernel refuses
 * a connection to its socket (macOS also refuses when the backlog is full). The file with the highest number is never removed, so
 * a candidate that slept through several elections finds a higher number than its own and withdraws.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, fstatSync, readdirSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { hasExited, type ProcessIdentity } from './processes.js'
import { createAtomically, isAt, malformed, parseFile, readText } from './whole-file.js'

export interface Generation {
  /** 0: no broker yet. */
  readonly number: number
  /** The socket's file name; '' when there is none, or when its broker has shut down cleanly. */
  readonly socket: string
  readonly mark: ProcessIdentity | undefined
  /** Set when the file does not tell its broker, as after a power cut, which may leave it empty: what is wrong with it. */
  readonly malformed?: string
}

/** Where the name of the socket begins; an `x` in place of its `s`: the broker has ended. */
const nameAt = '{"socket":"'.length

type Content = Pick<Generation, 'socket' | 'mark'>

/** Only what `generationFile` makes: of `broker-007`, there would be no file `broker-7`. */
const pattern = /^broker-([1-9]\d{0,14})$/
const maxNumber = 999_999_999_999_999

/** @throws as fs does, and for what is no file */
export function currentGeneration(directory: string): Generation {
  for (;;) {
    let number = 0
    for (const file of readdirSync(directory)) number = Math.max(number, Number(pattern.exec(file)?.[1] ?? 0))
    if (number === 0) return { number: 0, socket: '', mark: undefined }
    const path = generationFile(directory, number)
    const text = readText(path)
    // Removed between the two calls, because a higher generation exists by now.
    if (text === undefined) continue
    try {
      return { number, ...parseContent(path, text) }
    } catch (error) {
      return { number, socket: '', mark: undefined, malformed: (error as Error).message }
    }
  }
}

/** @throws Error when it is malformed */
function parseContent(path: string, text: string): Content {
  const { socket, mark } = parseFile<Content>(
    path,
    text,
    ({ socket, mark }) =>
      typeof socket === 'string' && /^[\w-]*$/.test(socket) && (mark === undefined || isWhole(mark)),
  )
  return { socket: socket.startsWith('x') ? '' : socket, mark }
}

/** Without its boot, a process that lives would count as one of an earlier boot. */
function isWhole({ pid, start, space, boot }: Partial<ProcessIdentity>): boolean {
  return typeof pid === 'number' && [start, space, boot].every((field) => typeof field === 'string')
}

/**
 * May a candidate succeed this generation, to which the connection failed?
 * @param code the code of the error from `connect`
 */
export function hasEnded(
  { socket, mark }: Generation,
  here: ProcessIdentity,
  code: string | undefined,
): boolean {
  if (socket === '' || mark === undefined || hasExited(mark, here)) return true
  return process.platform === 'linux' && code === 'ECONNREFUSED'
}

export function newSocketName(): string {
  return `s-${randomBytes(6).toString('hex')}`
}

/** A generation of this process. Its file is known by a descriptor: after a deletion, the name may be that of another process's file. */
export interface Publication {
  readonly number: number
  readonly socket: string
  /** Is the file in its place? False once another process may have become the broker. */
  isCurrent(): boolean
  /** Records that the broker has ended, so that the next need not check its process. */
  retire(): void
}

/** Publishes a listening socket as the generation after `last`. @returns undefined when another process was first */
export function publish(
  directory: string,
  last: number,
  socket: string,
  mark: ProcessIdentity,
): Publication | undefined {
  const number = last + 1
  if (number > maxNumber)
    throw malformed(generationFile(directory, last), 'it leaves no number for the next broker')
  const path = generationFile(directory, number)
  const fd = createAtomically(path, `${JSON.stringify({ socket, mark })}\n`)
  if (fd === undefined) return undefined
  if (currentGeneration(directory).number !== number) {
    closeSync(fd)
    remove(path)
    return undefined
  }
  return {
    number,
    socket,
    isCurrent: () => isAt(path, fstatSync(fd)),
    retire() {
      try {
        // One byte over another needs no room on the disk, and is seen before or after, never half.
        writeSync(fd, 'x', nameAt)
      } catch {
        // The others wait until this process has ended, and are told to end it.
      }
      closeSync(fd)
    },
  }
}

/** Removes the files of earlier brokers, for as long as the newest is ours. */
export function sweep(directory: string, { number, socket, isCurrent }: Publication): void {
  for (const file of readdirSync(directory)) {
    const other = Number(pattern.exec(file)?.[1] ?? number)
    const isEarlier = other < number || (file.startsWith('s-') && file !== socket)
    if (isEarlier && isCurrent()) remove(join(directory, file))
  }
}

function remove(path: string): void {
  try {
    unlinkSync(path)
  } catch {
    // Gone, not a file, or it cannot be removed: nobody reads it.
  }
}

export function generationFile(directory: string, number: number): string {
  return join(directory, `broker-${number}`)
}
