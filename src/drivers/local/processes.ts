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

export function thisProcess(): ProcessIdentity {
  return {
    pid: process.pid,
    start: readStat(process.pid)?.start ?? '',
    space: pidNamespace(),
    boot: bootId(),
  }
}

/** True only when the process has certainly ended; false when it lives or this is unknown. */
export function hasExited(mark: ProcessIdentity, here: ProcessIdentity): boolean {
  if (mark.boot !== here.boot) return true
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

function readStat(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The program's name is in parentheses and may contain anything; the fields after it are numbered from 3.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const [state, flags, start] = [fields[0], fields[6], fields[19]]
    if (state === undefined || start === undefined) return undefined
    return { state, flags: Number(flags), start }
  } catch {
    return undefined
  }
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

/** The pid namespace, outside of which pids mean nothing. */
export function pidNamespace(): string {
  return linkOr('/proc/self/ns/pid', '')
}

/** The network namespace, in which abstract socket names live. */
export function networkNamespace(): string {
  return linkOr('/proc/self/ns/net', '')
}

/** Differs after every start of the machine; '' where the system does not show it. */
export function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
  } catch {
    return ''
  }
}

function linkOr(path: string, otherwise: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return otherwise
  }
}
