/**
 * The directory that the processes of one user agree on, and the small file in it with the settings they share.
 *
 * Everything in the directory belongs to the user alone: another user with write access could forge grants. A directory that
 * others may write to, or that another user created first under a well-known name, is therefore refused and never repaired.
 * The home file holds a secret (abstract socket names have no permissions, so both ends prove that they can read it) and the
 * kind of socket. The first process chooses the kind once: two kinds for one directory would be two brokers.
 *
 * Long because what makes a directory trustworthy is read together.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { BackendError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import { bootId, networkNamespace } from './processes.js'
import { createAtomically, parseFile, readText } from './whole-file.js'

export type SocketKind = 'abstract' | 'file' | 'pipe'

export interface RuntimeDirectory {
  /** The real path, without links. */
  readonly directory: string
  readonly socket: SocketKind
  readonly secret: string
  /** The network namespace in which an abstract name was bound. */
  readonly net: string
  /** The path of which socket names are made: the one by which the directory was first used. A mount may show it at several. */
  readonly path: string
}

/** `inode`: that of the directory, so that a copy is known for one. Earlier versions wrote neither `path` nor `inode`. */
type Home = Pick<RuntimeDirectory, 'socket' | 'secret' | 'net'> & {
  readonly path?: string
  readonly inode?: string
}

/**
 * The default directory: one per user, unless HOLDFAST_DIR is set. TMPDIR and XDG_RUNTIME_DIR are not used: they are set in a login and
 * missing in cron, so two commands of one user would hold two locks of one name.
 */
export function defaultDirectory(env: NodeJS.ProcessEnv = process.env): string {
  if (env['HOLDFAST_DIR']) return resolve(env['HOLDFAST_DIR'])
  const uid = process.getuid?.()
  return uid === undefined ? join(tmpdir(), 'holdfast-user') : `/tmp/holdfast-${uid}`
}

/** The directories that this process has used, as they were named. */
const opened = new Set<string>()

/** Has nobody used it yet? False for one that was deleted under this process: what was held there may still be held. */
export function isUnused(directory: string): boolean {
  return !opened.has(directory) && isMissing(directory)
}

/** @returns false when this cannot be told */
export function isMissing(directory: string): boolean {
  try {
    statSync(directory)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

/**
 * Creates the directory and its home file where they are missing. @param path the one of which a broker's socket name is made
 * @throws BackendError when the directory cannot be used safely
 */
export function openRuntimeDirectory(
  directory: string,
  wanted: SocketKind | undefined,
  path?: string,
): RuntimeDirectory {
  try {
    makeFolder(directory)
    checkOwner(directory)
    opened.add(directory)
    return readOrMake(realpathSync(directory), wanted, path)
  } catch (error) {
    if (error instanceof BackendError) throw error
    const { code = '' } = error as NodeJS.ErrnoException
    const remedy = unfit.has(code) ? `; ${anotherDirectory}` : ''
    throw new BackendError(
      'local',
      `cannot use directory ${quote(directory)}: ${errorMessage(error)}${remedy}`,
      {
        cause: error,
      },
    )
  }
}

/** What the system says of a path that can be no directory of this process. */
const unfit: ReadonlySet<string> = new Set([
  'EROFS',
  'EACCES',
  'EPERM',
  'ENOTDIR',
  'ENOENT',
  'ENAMETOOLONG',
  'ELOOP',
])
const anotherDirectory = 'give local({ directory }) or HOLDFAST_DIR a directory of your own'

/** Node's own `recursive` loops forever where a folder is refused as if it had no parent, as in /proc. */
function makeFolder(path: string, tries = 2): void {
  if (exists(path)) return
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    if (code !== 'ENOENT' || tries === 0 || dirname(path) === path) throw error
    makeFolder(dirname(path))
    makeFolder(path, tries - 1)
  }
}

export function runtimeFile(directory: string): string {
  // One file per boot: its namespace ids do not outlive the kernel that assigned them.
  return join(directory, `home-${bootId().slice(0, 8) || 'any'}`)
}

/** The home file as it is now; undefined when it is gone. */
export function readRuntimeDirectory(directory: string): RuntimeDirectory | undefined {
  const text = readText(runtimeFile(directory))
  if (text === undefined) return undefined
  const { socket, secret, net, path, inode } = parseFile<Home>(runtimeFile(directory), text, isWhole)
  const isSame = path !== undefined && inode === inodeOf(directory)
  return { directory, socket, secret, net, path: isSame ? path : directory }
}

function inodeOf(directory: string): string {
  const { dev, ino } = statSync(directory)
  return `${dev}:${ino}`
}

function isWhole({ socket, secret, net, path }: Partial<Home>): boolean {
  const isKnown = socket === 'abstract' || socket === 'file' || socket === 'pipe'
  return isKnown && [secret, net, path ?? ''].every((field) => typeof field === 'string')
}

/** Writes the home file unless it exists. @returns the content of the file that exists then */
export function createRuntimeDirectory(home: RuntimeDirectory): RuntimeDirectory {
  const { directory, socket, secret, net, path } = home
  const text = JSON.stringify({ socket, secret, net, path, inode: inodeOf(directory) } satisfies Home)
  const created = createAtomically(runtimeFile(directory), `${text}\n`)
  if (created === undefined) return readRuntimeDirectory(directory) ?? createRuntimeDirectory(home)
  closeSync(created)
  return home
}

function readOrMake(directory: string, wanted: SocketKind | undefined, path = directory): RuntimeDirectory {
  const secret = () => randomBytes(32).toString('hex')
  const home =
    readRuntimeDirectory(directory) ??
    createRuntimeDirectory({
      directory,
      socket: wanted ?? chooseSocketKind(directory),
      secret: secret(),
      net: networkNamespace(),
      path,
    })
  if (wanted !== undefined && home.socket !== wanted) {
    throw new BackendError(
      'local',
      `directory ${quote(directory)} is in use with socket: '${home.socket}', got socket: '${wanted}'; use one kind everywhere or another directory`,
    )
  }
  if (home.socket === 'abstract' && !supportsAbstractSockets()) {
    throw new BackendError(
      'local',
      `directory ${quote(directory)} is in use with abstract sockets, which ${runtime()}; use a fresh directory with local({ directory, socket: 'file' }) in all processes`,
    )
  }
  if (home.socket === 'abstract' && home.net !== networkNamespace()) {
    throw new BackendError(
      'local',
      `directory ${quote(directory)} is in use by processes of another network name space (a container or its host), whose abstract sockets cannot be reached; use a fresh directory with local({ directory, socket: 'file' }) on both sides`,
    )
  }
  return home
}

function chooseSocketKind(directory: string): SocketKind {
  if (process.platform === 'win32') return 'pipe'
  return supportsAbstractSockets() && !isSharedVolume(directory) ? 'abstract' : 'file'
}

/**
 * Before 20.8, Node cut the name at its first byte, which is zero: all directories would have shared one broker. Bun takes names of at
 * most 107 bytes, and other names than Node's would be other brokers.
 */
function supportsAbstractSockets(): boolean {
  if (process.platform !== 'linux' || process.versions['bun'] !== undefined) return false
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 20 || (major === 20 && minor >= 8)
}

/** What {@link supportsAbstractSockets} found, for a message. */
function runtime(): string {
  const bun = process.versions['bun']
  return bun === undefined ? `Node ${process.version} cannot do (20.8 and later can)` : `Bun ${bun} cannot do`
}

/** In a container, a directory on its own file system may be mounted into other containers, too, each with its own names. */
function isSharedVolume(directory: string): boolean {
  const inContainer =
    exists('/.dockerenv') ||
    exists('/run/.containerenv') ||
    process.env['KUBERNETES_SERVICE_HOST'] !== undefined
  return inContainer && statSync(directory).dev !== statSync('/').dev
}

function checkOwner(directory: string): void {
  const uid = process.getuid?.()
  if (uid === undefined) return
  // Under a well-known name in a world-writable folder, another user could have placed a link.
  const found = lstatSync(directory)
  if (found.isSymbolicLink() && found.uid !== uid) refuse(directory, `is a link made by uid ${found.uid}`)
  const stat = statSync(directory)
  if (!stat.isDirectory()) refuse(directory, 'is not a directory')
  if (stat.uid !== uid) refuse(directory, `belongs to uid ${stat.uid}, and this process runs as ${uid}`)
  if ((stat.mode & 0o022) !== 0) {
    refuse(directory, `can be written by others (mode ${(stat.mode & 0o777).toString(8)}); chmod go-w it`)
  }
}

function refuse(directory: string, why: string): never {
  throw new BackendError('local', `directory ${quote(directory)} ${why}; ${anotherDirectory}`)
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
