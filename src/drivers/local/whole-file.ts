/** Small files that appear whole or not at all. A write that fails, as on a full disk, leaves nothing behind. */
import { randomBytes } from 'node:crypto'
import { linkSync, lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Creates the file unless it exists. @returns false when another process was first @throws what `fs` throws, with the file's name */
export function createAtomically(path: string, text: string): boolean {
  return throughDraft(path, text, (draft) => {
    try {
      linkSync(draft, path)
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      return false
    }
  })
}

/** Creates or replaces the file. @throws what `fs` throws, with the file's name */
export function replaceAtomically(path: string, text: string): void {
  throughDraft(path, text, (draft) => renameSync(draft, path))
}

function throughDraft<T>(path: string, text: string, place: (draft: string) => T): T {
  const draft = join(dirname(path), `draft-${randomBytes(6).toString('hex')}`)
  try {
    writeFileSync(draft, text, { flag: 'wx', mode: 0o600 })
    return place(draft)
  } catch (error) {
    throw unwritable(path, error)
  } finally {
    rmSync(draft, { force: true })
  }
}

export function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG'
}

/** The error with the file's name, which errors of `write` lack, and the same code. */
export function unwritable(path: string, error: unknown): Error {
  const { message, code } = error as NodeJS.ErrnoException
  const remedy = isFull(error) ? '; make room on its disk' : ''
  return Object.assign(new Error(`cannot write ${path}: ${message}${remedy}`, { cause: error }), { code })
}

/** @param why what is wrong with the file */
export function malformed(path: string, why: string): Error {
  return new Error(
    `${path} is malformed: ${why}; end all processes that use this directory, then delete that file`,
  )
}

/** @returns the file's text; undefined when it is missing @throws as fs does, and Error with the remedy for what is no file */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // The system's message does not name it.
    if (code === 'EISDIR') throw malformed(path, 'it is a directory')
    if (code !== 'ENOENT') throw error
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
    if (isLink) throw malformed(path, 'it is a link to nothing')
    return undefined
  }
}

/** @throws Error unless the text is JSON, and as `isWhole` demands */
export function parseFile<T>(path: string, text: string, isWhole: (value: Partial<T>) => boolean): T {
  let value: T | null
  try {
    value = JSON.parse(text) as T | null
  } catch (error) {
    throw malformed(path, text.trim() === '' ? 'it is empty' : (error as Error).message)
  }
  if (typeof value === 'object' && value !== null && isWhole(value)) return value
  throw malformed(path, `it has ${text.trim().slice(0, 80)}`)
}
