/**
 * Does a process still exist? A pid alone cannot tell, because pids are reused; with its start time it identifies one process of
 * one boot. Where the system does not show start times, a reused pid looks alive: a hold then ends by its ttl instead of at once,
 * which is slow but safe.
 */
import { readFileSync, readlinkSync } from 'node:fs'

/** Identifies one process while the machine runs. */
export interface ProcessIdentity {
  readonly pid: number
  /** The start time in the kernel's ticks since boot; '' where the system does not show it. */
  readonly start: string
  /** The pid namespace: pids of another namespace mean nothing here. */
  readonly space: string
  /** The boot: processes of an earlier boot are gone. */
  readonly boot: string
}

/** The kernel's flag of a process that has begun to exit and runs no more of its own code. */
const exiting = 0x4

let own: ProcessIdentity | undefined

/**
 * Read once: a connection may take the last file descriptor, and a process that could not say who it is would seem to be another.
 * @throws as fs does, when it cannot be read now
 */
export function thisProcess(): ProcessIdentity {
  own ??= {
    pid: process.pid,
    start: ifShown(() => parseStat(readText(process.pid)))?.start ?? '',
    space: pidNamespace(),
    boot: bootId(),
  }
  return own
}

/** True only when the process has certainly ended; false when it lives or this is unknown. */
export function hasExited(mark: ProcessIdentity, here: ProcessIdentity): boolean {
  // An unknown boot differs from none.
  if (mark.boot !== here.boot && mark.boot !== '' && here.boot !== '') return true
  if (mark.space !== here.space) return false
  if (mark.start === '' || here.start === '') return !answersSignals(mark.pid)
  const stat = readStat(mark.pid)
  if (stat === undefined) return !answersSignals(mark.pid)
  return stat.start !== mark.start || stat.state === 'Z' || stat.state === 'X' || (stat.flags & exiting) !== 0
}

interface Stat {
  readonly state: string
  readonly flags: number
  readonly start: string
}

/** @returns undefined when it is not shown, or cannot be read now: `answersSignals` then decides */
function readStat(pid: number): Stat | undefined {
  try {
    return parseStat(readText(pid))
  } catch {
    return undefined
  }
}

const readText = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'latin1')

function parseStat(text: string): Stat | undefined {
  // The program's name is in parentheses and may contain anything; the fields after it are numbered from 3.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state, flags, start] = [fields[0], fields[6], fields[19]]
  if (state === undefined || start === undefined) return undefined
  return { state, flags: Number(flags), start }
}

/** Signal 0 is not delivered; it only checks. Every result except "no such process" means that the process exists. */
function answersSignals(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** The pid namespace, outside of which pids mean nothing. @throws as fs does, when it cannot be read now */
export function pidNamespace(): string {
  return ifShown(() => readlinkSync('/proc/self/ns/pid')) ?? ''
}

/** The network namespace, in which abstract socket names live. @throws as fs does, when it cannot be read now */
export function networkNamespace(): string {
  return ifShown(() => readlinkSync('/proc/self/ns/net')) ?? ''
}

/** Differs after every start of the machine; '' where the system does not show it. @throws as fs does, when it cannot be read now */
export function bootId(): string {
  return ifShown(() => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1'))?.trim() ?? ''
}

const notShown = ['ENOENT', 'ENOTDIR', 'ESRCH', 'EACCES', 'EPERM']

/** @returns undefined on a system that does not show it; other errors pass, like EMFILE */
function ifShown<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (notShown.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
