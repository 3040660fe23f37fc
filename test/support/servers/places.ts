// Where things are: the checkout (tests run compiled, from build/), the cache of unpacked servers, and one private folder
// per test process in which every server of it works.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const above = dirname(fileURLToPath(import.meta.url))

/**
 * The checkout: the nearest folder that holds the fetch script, which is not compiled. Above this file, or, when the
 * tests were compiled to somewhere else, above the working directory.
 */
export const checkout: string = findCheckout(above) ?? findCheckout(process.cwd()) ?? notFound()

/** The folder the servers are unpacked into: `HOLDFAST_SERVERS`, or `.servers` in the checkout. */
export const cache: string = resolve(process.env['HOLDFAST_SERVERS'] || join(checkout, '.servers'))

function findCheckout(folder: string): string | undefined {
  if (existsSync(join(folder, 'scripts/servers/fetch.sh'))) return folder
  return dirname(folder) === folder ? undefined : findCheckout(dirname(folder))
}

function notFound(): never {
  throw new Error(`no folder above ${above} or ${process.cwd()} holds scripts/servers/fetch.sh`)
}

interface Guarded {
  readonly folder: string
  users: number
  release(): Promise<unknown>
}
let guarded: Guarded | undefined
let made = 0

/** A private folder for one server and the way to release it. */
export interface WorkFolder {
  readonly path: string
  /** Removes the folder. With the last one this process has, its guardian goes too. */
  remove(): Promise<void>
}

/**
 * Makes a folder whose processes die with this process (or worker thread), kill -9 included: see guardian.sh. A server
 * is covered if its working directory is in the folder when it starts.
 */
export function makeFolder(name: string): WorkFolder {
  guarded ??= guard()
  const mine = guarded
  const path = join(mine.folder, `${name}-${++made}`)
  mkdirSync(path)
  mine.users++
  let removed: Promise<void> | undefined
  const remove = async (): Promise<void> => {
    rmSync(path, { recursive: true, force: true, maxRetries: 5 })
    if (--mine.users > 0) return
    if (guarded === mine) guarded = undefined
    await mine.release()
  }
  return { path, remove: () => (removed ??= remove()) }
}

function guard(): Guarded {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-servers-'))
  // Detached: a Ctrl-C goes to the whole process group, and the guardian has to outlive it.
  const guardian = spawn('sh', [join(checkout, 'test/support/servers/guardian.sh'), folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  const gone = once(guardian, 'exit')
  gone.catch(() => {}) // reported by release()
  guardian.unref()
  const pipe = guardian.stdin as Socket
  pipe.unref()
  const release = (): Promise<unknown> => {
    guardian.ref()
    pipe.end()
    return gone
  }
  return { folder, users: 0, release }
}
