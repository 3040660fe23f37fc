/**
 * The file descriptors that the caller opened for the command, as in `exec 9>lock` or `3<file`. Node closes all descriptors it knows of in
 * every child. The command gets the caller's at the same numbers. The processes beside it do not: a lock process with such a descriptor open
 * would keep a flock(1) of the caller, or a reader at the other end of a pipe, for as long as it lives.
 *
 * Which descriptors are the caller's is read from /proc, so this works on Linux only. Node's own are of kinds that shells do not pass on,
 * except for its pipes: Node has both ends of each, and its parent has neither.
 */
import type { IOType } from 'node:child_process'
import { openSync, readdirSync, readlinkSync } from 'node:fs'
import type { Stream } from 'node:stream'
import { badInput } from '../exit.js'

const own = /^anon_inode:\[(eventpoll|eventfd|io_uring)\]$/

/**
 * @param open what each descriptor refers to, as /proc shows it
 * @param parents what the parent's descriptors refer to
 * @returns the descriptors the caller opened, in ascending order, without standard input, output and error
 */
export function callerDescriptors(open: ReadonlyMap<number, string>, parents: ReadonlySet<string>): number[] {
  const all = [...open]
  const bothEnds = (what: string) =>
    what.startsWith('pipe:') && all.filter(([, it]) => it === what).length > 1
  const isOurs = (what: string) => own.test(what) || (bothEnds(what) && !parents.has(what))
  return all
    .filter(([fd, what]) => fd > 2 && !isOurs(what))
    .map(([fd]) => fd)
    .sort((a, b) => a - b)
}

function opened(process: number | 'self'): Map<number, string> {
  const folder = `/proc/${process}/fd`
  try {
    return new Map(readdirSync(folder).flatMap((name) => readLink(folder, name)))
  } catch {
    // No /proc, or a process of another user.
    return new Map()
  }
}

/** Empty: closed meanwhile, like the descriptor that read the folder. */
function readLink(folder: string, name: string): [number, string][] {
  try {
    return [[Number(name), readlinkSync(`${folder}/${name}`)]]
  } catch {
    return []
  }
}

let callers: readonly number[] | undefined

/** Call it before this program opens anything; later calls return the first result. */
export function callersDescriptors(): readonly number[] {
  callers ??= callerDescriptors(opened('self'), new Set(opened(process.ppid).values())).filter(
    // The connection to the process that forked us.
    (fd) => fd !== (process.channel as { readonly fd?: number } | undefined)?.fd,
  )
  return callers
}

export type Stdio = readonly (IOType | 'ipc' | Stream | number)[]

/** For the command: the caller's descriptors, at the same numbers. `stdio` has no other use for these. */
export function withCallers(stdio: Stdio): Stdio[number][] {
  return filled(stdio, (fd) => fd)
}

let nothing: number | undefined

/** For our own processes: replaces the caller's descriptors that Node would pass on with /dev/null. */
export function withoutCallers(stdio: Stdio): Stdio[number][] {
  return filled(stdio, () => {
    nothing ??= openSync('/dev/null', 'r+')
    return nothing
  })
}

function filled(stdio: Stdio, at: (fd: number) => number): Stdio[number][] {
  const fds = callersDescriptors().filter((fd) => fd >= stdio.length || stdio[fd] === 'ignore')
  const all = Array.from(
    { length: Math.max(stdio.length, (fds.at(-1) ?? 0) + 1) },
    (_, fd) => stdio[fd] ?? 'ignore',
  )
  for (const fd of fds) all[fd] = at(fd)
  return all
}

/** Redirections of /bin/sh take one digit. */
const digits = [3, 4, 5, 6, 7, 8, 9] as const

/**
 * Descriptors that a script can use for pipes to us, beside those the caller opened for the command.
 * @throws CliError: not enough are free
 */
export function linesFor(count: number): number[] {
  const taken = new Set(callersDescriptors())
  const free = digits.filter((fd) => !taken.has(fd)).slice(0, count)
  if (free.length === count) return free
  throw badInput(
    `too many of the file descriptors 3 to 9 are open for the command: holdfast needs ${count} of them; close some with 9>&-, or use higher numbers`,
  )
}

/** `stdio` with a pipe at each of these numbers. */
export function withLines(stdio: Stdio, ...lines: readonly number[]): Stdio {
  return Array.from({ length: Math.max(...lines) + 1 }, (_, fd) =>
    lines.includes(fd) ? 'pipe' : (stdio[fd] ?? 'ignore'),
  )
}
