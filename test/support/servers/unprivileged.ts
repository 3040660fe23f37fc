// Some servers refuse to run as root. Then they run as `nobody`, from where it may read them and in folders that are its own.
import { execFile } from 'node:child_process'
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { makeFolder, type WorkFolder } from './places.js'

const run = promisify(execFile)
const nobody = 65_534

/** Who runs such a server: undefined unless this process is root. */
export const user: { readonly uid: number; readonly gid: number } | undefined =
  process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : undefined

/** A folder from `makeFolder` in which that user may work. */
export function makeOwnFolder(name: string): WorkFolder {
  const folder = makeFolder(name)
  if (user === undefined) return folder
  chmodSync(dirname(folder.path), 0o711)
  chownSync(folder.path, user.uid, user.gid)
  return folder
}

/** Gives the user a file or folder that was made for it. */
export function handOver(path: string): void {
  if (user !== undefined) chownSync(path, user.uid, user.gid)
}

/** The same for all that is in a folder. */
export async function handOverAll(folder: string): Promise<void> {
  if (user !== undefined) await run('chown', ['-R', `${user.uid}:${user.gid}`, folder])
}

/** Where that user can read `root`: there, or, when a folder above it is closed to others, a copy inside `folder`. */
export function readable(root: string, folder: WorkFolder): string {
  if (user === undefined || open(root)) return root
  const copy = join(folder.path, 'programs')
  if (!existsSync(copy)) {
    mkdirSync(copy)
    cpSync(root, copy, { recursive: true, verbatimSymlinks: true })
  }
  return copy
}

function open(path: string): boolean {
  if ((statSync(path).mode & 0o005) !== 0o005) return false
  return path === dirname(path) || open(dirname(path))
}

/** Runs a program of the server to its end as that user. @throws Error with what it said */
export async function runOwn(
  command: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): Promise<void> {
  await run(command, args, { ...options, ...user })
}
