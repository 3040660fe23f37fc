// Data directories of databases. Making one takes a second or more of processor time, so each kind is made once, beside the unpacked servers,
// and copied for every server.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cache, checkout } from './places.js'

const run = promisify(execFile)
const making = new Map<string, Promise<string>>()

/**
 * The folder with a fresh data directory of the server `recipe`.
 * @param args with which it is made: other ones, or another version of the server, make another folder
 * @param make makes it at the given path, which does not exist
 */
export function template(
  name: string,
  recipe: string,
  args: readonly string[],
  make: (to: string) => Promise<void>,
): Promise<string> {
  const found = making.get(name) ?? findOrMake(name, recipe, args, make)
  making.set(name, found)
  return found
}

async function findOrMake(
  name: string,
  recipe: string,
  args: readonly string[],
  make: (to: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256')
    .update(await readFile(join(checkout, 'scripts/servers', `${recipe}.recipe`)))
    .update(args.join(' '))
    .digest('hex')
    .slice(0, 12)
  const folder = join(cache, 'data')
  const path = join(folder, `${name}-${hash}`)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  const half = `${path}.${process.pid}-${Math.round(performance.now())}`
  try {
    await make(half)
    renameSync(half, path) // in one step: another test may be looking
  } catch (error) {
    // Another process may have been quicker; its directory is as good.
    if (!existsSync(path)) throw error
  } finally {
    rmSync(half, { recursive: true, force: true })
  }
  return path
}

/** In a process of its own: a busy disk takes seconds for it. @param to must not exist */
export async function copyFolder(from: string, to: string): Promise<void> {
  await run('cp', ['-R', from, to])
}
