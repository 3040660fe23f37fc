/**
 * What a new broker must know from the old one: the holds, and the last token.
 *
 * A grant is written before it is sent, an end before its answer. Nothing is synced: the page cache outlives a killed process,
 * and after a power cut the boot id differs, all holders are dead, and tokens continue by the wall clock. The file has a header
 * and one line per event: see `journal-text.ts`, also for damage. Every broker begins with its own file, put in place by a rename, so
 * that late writes of an earlier broker cannot reach it.
 *
 * Nor can a late rename, by a broker that was stopped right before it: a broker makes its draft, then checks that it is still the
 * broker, then renames the draft. Its successor is the broker by then, or becomes it later, and deletes all drafts before it
 * begins its own journal.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { type JournalState, parseBroker, parseJournal, parseWriter, toLines } from './journal-lines.js'
import { hasExited, type ProcessIdentity } from './processes.js'
import { isAt, readText, unwritable } from './whole-file.js'

/** A file that is to become the journal. Earlier versions named it by the process. */
const draft = /^journal-[0-9a-f]+$/
/** The size of a journal that is worth compacting, in bytes. */
const compactThreshold = 256 * 1024

export interface Journal {
  /** Writes `lines` (each with its newline), all or none. @throws as fs does, when not all could be written */
  append(lines: string): void
  /** Is it time for `rewrite`? */
  readonly large: boolean
  /** Was the file deleted while in use, or moved away, replaced, or written to by another process, or may another process be the broker? */
  readonly changed: boolean
  /** Replaces the file with one that has only `snapshot`. @returns false when it cannot be written: the old file stays in use */
  rewrite(snapshot: { readonly lines: string; readonly floor: number }): boolean
  /** Records that its broker has ended, if that can be written. */
  retire(): void
  close(): void
}

export function journalFile(directory: string): string {
  return join(directory, 'journal')
}

/** Reads the journal of an earlier broker. A missing file counts as empty. @throws as `readText` */
export function readJournal(directory: string): JournalState {
  return parseJournal(textOf(directory))
}

/** The process of the last broker that wrote, unless that broker has certainly ended; its pid is 0 when it is unknown. @throws as `readText` */
export function recordedBroker(directory: string, here: ProcessIdentity): ProcessIdentity | undefined {
  const broker = parseBroker(textOf(directory))
  return broker === undefined || hasExited(broker, here) ? undefined : broker
}

/** Has another process begun the journal that is in place, or is that unknown? @throws as `readText` */
export function isAnothers(directory: string, here: ProcessIdentity): boolean {
  const writer = parseWriter(textOf(directory))
  return (
    writer !== undefined && !(['pid', 'start', 'space'] as const).every((key) => writer[key] === here[key])
  )
}

function textOf(directory: string): string {
  return readText(journalFile(directory)) ?? ''
}

function deleteDrafts(directory: string): void {
  for (const file of readdirSync(directory))
    if (draft.test(file)) rmSync(join(directory, file), { force: true })
}

/**
 * Puts a file in the journal's place. @param isBroker false: another process may be the broker, whose journal must not be replaced;
 * where there is none, the next broker reads this one
 */
function putInPlace(file: string, directory: string, isBroker: boolean): void {
  if (isBroker) return renameSync(file, journalFile(directory))
  linkSync(file, journalFile(directory))
  rmSync(file)
}

/**
 * The journal of a broker that could not begin its own, as on a full disk: whatever needs no line works, and every line waits for a file of
 * its own. The file of the earlier broker stays as it is, for that one may live, and write into it.
 */
export function unbegunJournal(why: unknown): Journal {
  return {
    append() {
      throw why
    },
    large: false,
    changed: true,
    rewrite: () => false,
    retire: () => undefined,
    close: () => undefined,
  }
}

/**
 * Begins a journal with the current state.
 *
 * @param isBroker is this process certainly the broker?
 * @throws as fs does: `EEXIST` when it may not be, and there is a journal
 */
export function openJournal(
  directory: string,
  here: ProcessIdentity,
  snapshot: { readonly lines: string; readonly floor: number },
  isBroker: () => boolean = () => true,
): Journal {
  let fd = -1
  let size = 0
  let sizeAtBest = 0

  function replace({ lines, floor }: { readonly lines: string; readonly floor: number }): void {
    const draft = join(directory, `journal-${randomBytes(6).toString('hex')}`)
    const next = openSync(draft, 'wx', 0o600)
    let written: number
    try {
      written = writeAll(next, toLines.header(here, floor) + lines, 0)
      putInPlace(draft, directory, isBroker())
    } catch (error) {
      closeSync(next)
      rmSync(draft, { force: true })
      throw unwritable(journalFile(directory), error)
    }
    if (fd >= 0) closeSync(fd)
    fd = next
    size = written
    sizeAtBest = written
  }

  function append(lines: string): void {
    try {
      size += writeAll(fd, lines, size)
    } catch (error) {
      // Removes the part that was written: a whole line in it would count, and after a torn one more lines would be damage.
      ftruncateSync(fd, size)
      throw unwritable(journalFile(directory), error)
    }
  }

  if (isBroker()) deleteDrafts(directory)
  replace(snapshot)
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
      return size > compactThreshold && size > 4 * sizeAtBest
    },
    get changed() {
      const file = fstatSync(fd)
      return file.size !== size || !isAt(journalFile(directory), file) || !isBroker()
    },
    retire() {
      try {
        append(toLines.header({ ...here, pid: 0 }, 0))
      } catch {
        // The next process counts this one as a broker until this one has ended.
      }
    },
    close: () => closeSync(fd),
  }
}

/** A write may be partial; the next write then throws the reason. */
function writeAll(fd: number, text: string, at: number): number {
  const length = Buffer.byteLength(text)
  let done = writeSync(fd, text, at)
  if (done === length) return length
  const bytes = Buffer.from(text)
  while (done < length) done += writeSync(fd, bytes, done, length - done, at + done)
  return length
}
