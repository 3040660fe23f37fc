/**
 * How `holdfast release NAME --token N` reaches the process that holds the lock: a socket in a directory of the user to which nobody else
 * may write. The kernel lets only the user and root connect, so a request needs no proof.
 */
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { CliError, exits } from '../exit.js'
import { localDirectory } from '../local-directory.js'
import { plain } from '../print.js'

/** How long a release may take, in ms: the process that holds the lock may be stopped, or wait for a store that is silent. */
const timeLimit = 15_000

/** The result of a release. */
export interface Released {
  readonly exitCode: number
  /** Lines for stderr. */
  readonly messages: readonly string[]
}

export interface Handle {
  readonly url: string
  readonly name: string
  readonly token: number
}

/** Maximum length of a socket path, in bytes, on the most restrictive system. */
const maxPath = 103
const prefix = 'hold-'

/** The directory of `local:` as well; HOLDFAST_DIR moves both. */
function folder(): string {
  return localDirectory('')
}

/** Creates the directory if it is missing. @throws CliError if others could write to it, or its name is too long */
export function checkFolder(): void {
  const path = folder()
  const refuse = (why: string): never => {
    throw new CliError(
      exits.unavailable,
      `directory ${plain(path)} ${why}; give HOLDFAST_DIR a directory of your own`,
    )
  }
  if (Buffer.byteLength(path) + prefix.length + 33 > maxPath) refuse('has too long a name for a socket in it')
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    refuse(`cannot be made: ${(error as Error).message}`)
  }
  // Under a well-known name in a world-writable folder, another user could have placed a link.
  const found = lstatSync(path)
  if (found.isSymbolicLink() && found.uid !== process.getuid?.()) refuse(`is a link made by uid ${found.uid}`)
  const { uid, mode } = statSync(path)
  if (uid !== process.getuid?.()) refuse(`belongs to uid ${uid}`)
  if ((mode & 0o022) !== 0) refuse('can be written by others')
}

function socketPath({ url, name, token }: Handle): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([url, name, token]))
    .digest('hex')
  return join(folder(), `${prefix}${digest.slice(0, 32)}`)
}

/** Answers each request with the result of `release`. */
export async function listenFor(handle: Handle, release: () => Promise<Released>): Promise<Server> {
  await sweep()
  // Write permission on a socket allows connecting to it, and the caller's umask may give that to everybody.
  process.umask(0o077)
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      // A blank before the JSON: this process runs, and has read the request.
      socket.write(' ')
      void release().then((released) => socket.end(JSON.stringify(released)))
    })
  })
  await new Promise<void>((done, failed) => {
    server.once('error', failed)
    server.listen(socketPath(handle), done)
  })
  return server
}

/** @throws CliError: this user holds no such lock on this machine */
export async function askForRelease(handle: Handle): Promise<Released> {
  checkFolder()
  const socket = await connect(socketPath(handle)).catch(() => undefined)
  if (socket === undefined) {
    throw new CliError(
      exits.failed,
      `no holdfast hold of yours on this machine has "${plain(handle.name)}" with token ${handle.token}; it may have ended with its owner`,
    )
  }
  socket.write('release\n')
  const parts: Buffer[] = []
  let late = false
  const timer = setTimeout(() => {
    late = true
    socket.destroy()
  }, timeLimit)
  try {
    for await (const part of socket) parts.push(part as Buffer)
  } catch {
    // If the holder is killed now, the connection may break.
  }
  clearTimeout(timer)
  if (late) throw new CliError(exits.unavailable, lateText(handle, parts.length > 0))
  try {
    return JSON.parse(Buffer.concat(parts).toString()) as Released
  } catch {
    throw new CliError(exits.unavailable, 'the process that holds the lock ended without an answer')
  }
}

/** @param read the process that holds the lock has read the request */
function lateText({ name }: Handle, read: boolean): string {
  const what = `"${plain(name)}" is not released within ${timeLimit / 1_000} s`
  return read
    ? `${what}, as when the store does not answer; at the latest it frees itself when its --ttl has passed`
    : `${what}: the process that holds it (holdfast hold) does not react, as when it is stopped; continue it with kill -CONT, and it releases the lock`
}

/** A new socket may be bound and not listen yet. In ms. */
const minAge = 60_000

/** Removes the sockets of processes that were killed. */
async function sweep(): Promise<void> {
  const names = readdirSync(folder()).filter((name) => name.startsWith(prefix))
  await Promise.all(names.map((name) => removeDead(join(folder(), name))))
}

async function removeDead(path: string): Promise<void> {
  const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs
  if (made === undefined || Date.now() - made < minAge) return
  const socket = await connect(path).catch(() => undefined)
  if (socket === undefined) rmSync(path, { force: true })
  socket?.destroy()
}

function connect(path: string): Promise<Socket> {
  return new Promise((done, failed) => {
    const socket = createConnection(path, () => done(socket))
    socket.once('error', failed)
  })
}
