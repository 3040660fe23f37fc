/**
 * What a new broker must know of the old one: who holds what, and how far tokens have come.
 *
 * A grant is written before it is told, an end before its answer. Nothing is synced: the page cache outlives a killed
 * process, and after a power cut the boot id differs, all holders are dead, and tokens go on by the wall clock. The file
 * is a header and one line for each event; a torn line (disk full, killed in mid-write) is skipped when read. Every broker
 * begins with a file of its own, put in place by a rename, so that nothing an earlier one still writes can reach it.
 */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Journaled, journaledIn, lineOf } from './journal-lines.js'
import type { ProcessMark } from './processes.js'

/** Bytes of a journal that is worth writing anew with what is still true. */
const worthCompacting = 256 * 1024

export interface Journal {
  /** Writes `lines` (each with its newline), all or none. @throws as fs does, when not all could be written */
  append(lines: string): void
  /** Is it time for `rewrite`? */
  readonly large: boolean
  /** Has the file been deleted under us? */
  readonly deleted: boolean
  /** Replaces the file by one that says only this; false when that cannot be written, and the old file stays in use. */
  rewrite(snapshot: { readonly lines: string; readonly floor: number }): boolean
  close(): void
}

export function journalFile(directory: string): string {
  return join(directory, 'journal')
}

/** Reads what an earlier broker left. A missing file is an empty one. @throws as fs does */
export function readJournal(directory: string): Journaled {
  try {
    return journaledIn(readFileSync(journalFile(directory), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return journaledIn('')
  }
}

/**
 * Begins a journal with what is still true. On a full disk it goes on with the file that is there,
 * so that what needs no writing (renewals) works, and every append tries again.
 */
export function openJournal(
  directory: string,
  here: ProcessMark,
  snapshot: { readonly lines: string; readonly floor: number },
): Journal {
  let fd = -1
  let size = 0
  let sizeAtBest = 0
  /** What has to be written before anything else. */
  let due = ''

  function replace({ lines, floor }: { readonly lines: string; readonly floor: number }): void {
    const draft = join(directory, `journal-${process.pid}`)
    const next = openSync(draft, 'w', 0o600)
    let written: number
    try {
      written = writeAll(next, lineOf.header(here, floor) + lines, 0)
      renameSync(draft, journalFile(directory))
    } catch (error) {
      closeSync(next)
      unlinkSync(draft)
      throw error
    }
    if (fd >= 0) closeSync(fd)
    fd = next
    size = written
    sizeAtBest = written
    due = ''
  }

  function append(lines: string): void {
    try {
      size += writeAll(fd, due + lines, size)
      due = ''
    } catch (error) {
      // Takes back what part of it was written: a whole line of it would be believed.
      ftruncateSync(fd, size)
      throw error
    }
  }

  try {
    replace(snapshot)
  } catch (error) {
    fd = isFull(error) ? openExisting(directory) : -1
    if (fd < 0) throw error
    size = fstatSync(fd).size
    due = `\n${lineOf.header(here, snapshot.floor)}`
  }
  return {
    append,
    rewrite(snapshot) {
      try {
        replace(snapshot)
        return true
      } catch {
        return false
      }
    },
    get large() {
      return size > worthCompacting && size > 4 * sizeAtBest
    },
    get deleted() {
      return fstatSync(fd).nlink === 0
    },
    close: () => closeSync(fd),
  }
}

function openExisting(directory: string): number {
  try {
    return openSync(journalFile(directory), 'r+')
  } catch {
    return -1
  }
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG'
}

/** A write may take only a part; the next one then says what is wrong. */
function writeAll(fd: number, text: string, at: number): number {
  const length = Buffer.byteLength(text)
  let done = writeSync(fd, text, at)
  if (done === length) return length
  const bytes = Buffer.from(text)
  while (done < length) done += writeSync(fd, bytes, done, length - done, at + done)
  return length
}
