// The fault shims of test/support/shims, compiled at first use.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unpacked } from './fetch.js'
import { cache, checkout } from './places.js'

const run = promisify(execFile)

/** `clock` moves a server's wall clock, `power` and `redo` track what a power cut would leave: of appended files, of database logs. */
export type Shim = 'clock' | 'power' | 'redo'

/** The compiled shim, ready to be preloaded. Named by the hash of its source, so a changed source is compiled again. */
export async function shim(name: Shim): Promise<string> {
  const source = join(checkout, 'test/support/shims', `${name}.c`)
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 12)
  const folder = join(cache, 'shims')
  const library = join(folder, `${name}-${hash}.so`)
  if (existsSync(library)) return library
  mkdirSync(folder, { recursive: true })
  const half = `${library}.${process.pid}-${performance.now()}`
  try {
    await compile(source, half)
    renameSync(half, library) // in one step: another test may be looking
  } finally {
    rmSync(half, { force: true })
  }
  return library
}

async function compile(source: string, library: string): Promise<void> {
  try {
    await run('cc', ['-O2', '-shared', '-fPIC', '-o', library, source])
  } catch {
    await compileWithTcc(source, library) // no compiler, or none with headers; a fault in the source fails here too
  }
}

// A machine without a compiler gets a small one, unpacked like the servers. What the shim calls is left open and found in
// the server's own C library when it is loaded.
async function compileWithTcc(source: string, library: string): Promise<void> {
  const { root, libraries } = await unpacked('tcc')
  const headers = [join(libraries, 'tcc/include'), join(root, 'usr/include')]
  headers.push(join(root, 'usr/include', libraries.slice(libraries.lastIndexOf('/') + 1)))
  const includes = headers.map((folder) => `-I${folder}`)
  const own = [`-B${join(libraries, 'tcc')}`, '-nostdlib', '-nostdinc', ...includes]
  await run(join(root, 'usr/bin/tcc'), [...own, '-shared', '-o', library, source])
}
