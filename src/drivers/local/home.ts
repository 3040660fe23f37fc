/**
 * The directory that the processes of one user agree on, and the small file in it that says how they meet.
 *
 * Everything in it belongs to the user and to nobody else: whoever could write there could forge grants. So a directory
 * that others may write to, or that somebody else made first under a well-known name, is refused and never repaired.
 * The home file holds a secret (abstract socket names have no permissions, so both ends prove that they can read it) and
 * the kind of socket, chosen once by whoever came first: two kinds for one directory would be two brokers.
 */
import { randomBytes } from 'node:crypto'
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { BackendError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import { bootId, netSpace } from './processes.js'

export type SocketKind = 'abstract' | 'file' | 'pipe'

export interface Home {
  /** The real path, without links. */
  readonly directory: string
  readonly socket: SocketKind
  readonly secret: string
  /** The network name space in which an abstract name was bound. */
  readonly net: string
}

/** Where the user's processes meet unless told otherwise. */
export function defaultDirectory(env: NodeJS.ProcessEnv = process.env): string {
  if (env['HOLDFAST_DIR']) return resolve(env['HOLDFAST_DIR'])
  const runtime = env['XDG_RUNTIME_DIR']
  if (runtime && isAbsolute(runtime) && process.platform === 'linux') return join(runtime, 'holdfast')
  return join(tmpdir(), `holdfast-${process.getuid?.() ?? 'user'}`)
}

/** Makes the directory and its home file where they are missing. @throws BackendError when it cannot be used safely */
export function openHome(directory: string, wanted: SocketKind | undefined): Home {
  try {
    makeFolder(directory)
    checkOwner(directory)
    return readOrMake(realpathSync(directory), wanted)
  } catch (error) {
    if (error instanceof BackendError) throw error
    throw new BackendError('local', `cannot use directory ${quote(directory)}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

/** Node's own `recursive` goes round for ever where a folder is refused as if it had no parent, as in /proc. */
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

export function homeFile(directory: string): string {
  // One file for each boot: what it says about name spaces does not outlive the kernel that named them.
  return join(directory, `home-${bootId().slice(0, 8) || 'any'}`)
}

/** The home file as it is now; undefined when it is gone. */
export function readHome(directory: string): Home | undefined {
  let text: string
  try {
    text = readFileSync(homeFile(directory), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const { socket, secret, net } = JSON.parse(text) as Home
  return { directory, socket, secret, net }
}

/** Writes the home file unless there is one; gives the one that is there. */
export function makeHome(home: Home): Home {
  const { directory, socket, secret, net } = home
  const draft = join(directory, `draft-${randomBytes(6).toString('hex')}`)
  writeFileSync(draft, `${JSON.stringify({ socket, secret, net })}\n`, { flag: 'wx', mode: 0o600 })
  try {
    // A link appears whole or not at all, and only if nobody was first.
    linkSync(draft, homeFile(directory))
    return home
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return readHome(directory) ?? makeHome(home)
  } finally {
    unlinkSync(draft)
  }
}

function readOrMake(directory: string, wanted: SocketKind | undefined): Home {
  const secret = () => randomBytes(32).toString('hex')
  const home =
    readHome(directory) ??
    makeHome({ directory, socket: wanted ?? bestSocket(directory), secret: secret(), net: netSpace() })
  if (wanted !== undefined && home.socket !== wanted) {
    throw new BackendError(
      'local',
      `directory ${quote(directory)} is in use with socket: '${home.socket}', got socket: '${wanted}'; use one kind everywhere or another directory`,
    )
  }
  if (home.socket === 'abstract' && !abstractWorks()) {
    throw new BackendError(
      'local',
      `directory ${quote(directory)} is in use with abstract sockets, which Node ${process.version} cannot do; use Node 20.8 or later, or another directory`,
    )
  }
  if (home.socket === 'abstract' && home.net !== netSpace()) {
    throw new BackendError(
      'local',
      `directory ${quote(directory)} is in use by processes of another network name space (a container or its host), whose abstract sockets cannot be reached; use a fresh directory with local({ directory, socket: 'file' }) on both sides`,
    )
  }
  return home
}

function bestSocket(directory: string): SocketKind {
  if (process.platform === 'win32') return 'pipe'
  return abstractWorks() && !mayBeSharedVolume(directory) ? 'abstract' : 'file'
}

/** Before 20.8 Node cut the name at its first byte, which is zero: all directories would have had one broker. */
function abstractWorks(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return process.platform === 'linux' && (major > 20 || (major === 20 && minor >= 8))
}

/** In a container, a directory on a file system of its own may be mounted into others too, each with names of its own. */
function mayBeSharedVolume(directory: string): boolean {
  const inContainer =
    exists('/.dockerenv') ||
    exists('/run/.containerenv') ||
    process.env['KUBERNETES_SERVICE_HOST'] !== undefined
  return inContainer && statSync(directory).dev !== statSync('/').dev
}

function checkOwner(directory: string): void {
  const uid = process.getuid?.()
  if (uid === undefined) return
  // Under a well-known name in a folder for everybody, a link could have been laid by somebody else.
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
  throw new BackendError(
    'local',
    `directory ${quote(directory)} ${why}; give local({ directory }) or HOLDFAST_DIR a directory of your own`,
  )
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
