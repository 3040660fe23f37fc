/**
 * Named stores of a project, for `--on prod`:
 *
 * ```
 * holdfast.json       { "stores": { "prod": "redis://app:${REDIS_PASSWORD}@10.0.0.5", "ci": "local:/tmp/ci" }, "default": "prod" }
 * package.json        the same under the key "holdfast"
 * ```
 * The search starts in the working directory and goes up to the home directory or the root. Anyone who can write to the file decides which
 * locks exclude each other and receives passwords; so a file owned by another user is refused (root excepted), and passwords come from the
 * environment only. A file that cannot be parsed is an error, too: continuing without it would take the lock in a different store than
 * everyone else.
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  type Stats,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { badInput, type CliError } from './exit.js'
import { didYouMean } from './nearest.js'
import { plain } from './print.js'
import { findRepeatedKeys } from './repeated-keys.js'

export interface Config {
  readonly file: string
  /** URLs as written in the file, by name. */
  readonly stores: ReadonlyMap<string, string>
  /** Name of the default store. */
  readonly usual: string | undefined
}

/** A valid store name: nothing that could be a URL or a path. */
const name = /^[A-Za-z][\w.-]{0,62}$/

export function isStoreName(text: string): boolean {
  return name.test(text)
}

/** @param from the directory to start in. @throws CliError for a file that is refused or cannot be parsed. */
export function findConfig(from: string | undefined = workingDirectory()): Config | undefined {
  const home = homeDirectory()
  for (let folder = from; folder !== undefined; folder = above(folder, home)) {
    const found = readConfig(folder)
    if (found !== undefined) return found
  }
  return undefined
}

/** Undefined: without HOME, a user whom the system does not know has none, as the user of a container may be. */
function homeDirectory(): string | undefined {
  try {
    return real(homedir())
  } catch {
    return undefined
  }
}

/** A working directory that has been removed has no path. */
function workingDirectory(): string | undefined {
  try {
    return process.cwd()
  } catch {
    return undefined
  }
}

function real(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

function above(folder: string, home: string | undefined): string | undefined {
  const next = dirname(folder)
  return folder === home || next === folder ? undefined : next
}

function readConfig(folder: string): Config | undefined {
  const own = join(folder, 'holdfast.json')
  const found = readContent(own)
  if (found !== undefined) {
    refuseWritable(own, found.stats)
    const value = parsed(own, found.text)
    refuseRepeated(own, found.text, () => true)
    return read(own, '', value)
  }
  const manifest = join(folder, 'package.json')
  const other = readContent(manifest)
  if (other === undefined || !other.text.includes('"holdfast"')) return undefined
  const whole = parsed(manifest, other.text)
  // Most manifests that mention holdfast only depend on it.
  if (!isObject(whole) || !Object.hasOwn(whole, 'holdfast')) return undefined
  refuseWritable(manifest, other.stats)
  refuseRepeated(manifest, other.text, ([first]) => first === 'holdfast')
  return read(manifest, 'holdfast.', whole['holdfast'])
}

interface Content {
  readonly text: string
  readonly stats: Stats
}

/** Undefined: no such file. */
function readContent(file: string): Content | undefined {
  try {
    lstatSync(file)
  } catch {
    // Or the file is in a folder we may not read.
    return undefined
  }
  let opened: number | undefined
  try {
    // Without O_NONBLOCK, opening a FIFO of this name would block for ever.
    opened = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
    const stats = fstatSync(opened)
    if (!stats.isFile())
      throw badInput(`${plain(file)} is not a file; remove it, or give --on the URL of a store`)
    return { text: readFileSync(opened, 'utf8').replace(/^\uFEFF/, ''), stats }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    throw badInput(
      `${plain(file)} cannot be read (${code}); make it readable, or give --on the URL of a store`,
    )
  } finally {
    if (opened !== undefined) closeSync(opened)
  }
}

/** Group and others may not write. Exception: the user's own group, to which many systems give write access on every new file. */
function refuseWritable(file: string, { uid, gid, mode }: Stats): void {
  const me = process.getuid?.()
  if (me === undefined) return
  const refuse = (why: string) =>
    badInput(`${plain(file)} is not used: ${why}; or give --on the URL of a store`)
  if (uid !== me && uid !== 0) throw refuse(`it belongs to another user (${uid}); make it yours with chown`)
  if ((mode & 0o002) !== 0) throw refuse('every user can write to it; chmod o-w')
  if ((mode & 0o020) !== 0 && gid !== me) throw refuse('its group can write to it; chmod g-w')
}

function parsed(file: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // The parser's message may quote the file, and so a password.
    const at = /position \d+/.exec((error as Error).message)?.[0]
    throw badInput(`${plain(file)} is not JSON${at === undefined ? '' : `, at ${at}`}`)
  }
}

/** Of two stores with one name, each reader of the file may take another one. */
function refuseRepeated(file: string, text: string, isOurs: (path: readonly string[]) => boolean): void {
  const path = findRepeatedKeys(text).find(isOurs)
  if (path === undefined) return
  throw badInput(`${plain(file)} has ${plain(path.join('.'))} twice; remove one of them`)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const keys = ['stores', 'default'] as const

/** @param at where the configuration is in the file, for messages */
function read(file: string, at: string, value: unknown): Config {
  const wrong = (what: string): CliError => badInput(`${plain(file)}: ${what}`)
  if (!isObject(value)) throw wrong(`${at.slice(0, -1) || 'it'} must be an object with ${keys.join(' and ')}`)
  for (const key of Object.keys(value)) {
    if (keys.some((known) => known === key)) continue
    throw wrong(`unknown key '${at}${plain(key)}'${didYouMean(key, keys)}; known are ${keys.join(', ')}`)
  }
  const { stores = {}, default: usual } = value
  if (!isObject(stores)) throw wrong(`${at}stores must be an object of names with the URLs of stores`)
  const all = new Map<string, string>()
  for (const [store, url] of Object.entries(stores)) {
    if (!isStoreName(store)) {
      throw wrong(
        `${at}stores has the name '${plain(store)}'; a name begins with a letter and has letters, digits and . _ - only`,
      )
    }
    if (typeof url !== 'string' || url === '')
      throw wrong(`${at}stores.${store} must be the URL of a store, as text`)
    all.set(store, url)
  }
  if (usual === undefined) return { file, stores: all, usual }
  if (typeof usual !== 'string' || !all.has(usual)) {
    const meant = typeof usual === 'string' ? didYouMean(usual, all.keys()) : ''
    throw wrong(`${at}default must be the name of one of its stores (${[...all.keys()].join(', ')})${meant}`)
  }
  return { file, stores: all, usual }
}
