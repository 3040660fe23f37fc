/** Small files that appear whole or not at all. A write that fails, as on a full disk, leaves nothing behind. */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  linkSync,
  lstatSync,
  openSync,
  readFileSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

/** Creates the file unless it exists. @returns its descriptor; undefined when another process was first @throws what `fs` throws, with the file's name */
export function createAtomically(path: string, text: string): number | undefined {
  const draft = join(dirname(path), `draft-${randomBytes(6).toString('hex')}`)
  let fd: number | undefined
  try {
    fd = openSync(draft, 'wx', 0o600)
    writeFileSync(fd, text)
    linkSync(draft, path)
    return fd
  } catch (error) {
    if (fd !== undefined) closeSync(fd)
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return undefined
    throw unwritable(path, error)
  } finally {
    rmSync(draft, { force: true })
  }
}

/** Is this open file still the one at `path`? A file in a directory that was renamed still has a link. */
export function isAt(path: string, { dev, ino, nlink }: Stats): boolean {
  try {
    const found = statSync(path)
    return found.ino === ino && found.dev === dev
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code !== 'ENOENT' && code !== 'ENOTDIR' && nlink > 0
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
