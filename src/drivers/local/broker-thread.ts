/**
 * The broker's thread in the elected process. It stands by until its first message, its orders. It then binds the address, which
 * is the election itself, reads the journal, and serves. It is a thread so that user code that blocks the event loop does not stop
 * other processes. It reports `up`, `taken` (another broker has the address), `held` (a process that is not a broker has it) or
 * `failed` to its process, and ends on the message `stop` or with its process.
 *
 * Long because the two kinds of broker, by name and by file, must exclude each other: see {@link begin}.
 */
import { existsSync, type FSWatcher, watch } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { parentPort } from 'node:worker_threads'
import { sinceBoot, systemClock } from '../../core/clock.js'
import { displayAddress, fixedAddress } from './address.js'
import { type Broker, createBroker } from './broker.js'
import type { Snapshot } from './durable-table.js'
import {
  currentGeneration,
  type Generation,
  generationFile,
  newSocketName,
  type Publication,
  publish,
  sweep,
} from './file-election.js'
import { findSocketHolder } from './holder.js'
import { isAnothers, type Journal, openJournal, readJournal, recordedBroker } from './journal.js'
import { hasExited, type ProcessIdentity, thisProcess } from './processes.js'
import {
  errorMessage,
  openRuntimeDirectory,
  type RuntimeDirectory,
  runtimeFile,
} from './runtime-directory.js'
import { acceptConnection } from './server-connection.js'

export interface BrokerCommand {
  readonly runtimeDirectory: RuntimeDirectory
  /** The newest generation of socket files, which has ended. */
  readonly last: Generation
}

export type BrokerStatus =
  | { readonly is: 'up' | 'taken' }
  | { readonly is: 'failed' | 'held'; readonly why: string }

/** The longest path of a socket file that every system accepts, in bytes. */
const maxPath = 103
/** How long a deletion may take before anything is restored, in ms. */
const restorePause = 20
/** The pause after something could not be restored, in ms. */
const retryPause = 100

let runtimeDirectory: RuntimeDirectory
let directory: string
let last: Generation
/** Set when we serve over a socket file. */
let published: Publication | undefined
let isPublishing = false
/** Replies that wait until we are published again. */
const unsent = new Set<() => void>()
const here = thisProcess()
const user = process.getuid?.()
const clock = systemClock()
const sockets = new Set<Socket>()
const unproven = new Set<Socket>()
let broker: Broker | undefined
let server: Server | undefined
const watchers = new Set<FSWatcher>()
let stopChecking: (() => void) | undefined
let stopping = false

function report(message: BrokerStatus): void {
  parentPort?.postMessage(message)
}

/** Another broker has the address, or this process cannot run one: the thread ends. */
function giveUp(message: BrokerStatus): void {
  report(message)
  process.exit()
}

function listen(path: string, onListening: () => void, onInUse = () => giveUp({ is: 'taken' })): void {
  const next = createServer((socket) => {
    if (broker === undefined || stopping) return socket.destroy()
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    const secret = () => {
      // The process now runs as another user: processes of the previous user can no longer recognise us as theirs.
      if (process.getuid?.() !== user) process.exit(1)
      return openRuntimeDirectory(directory, runtimeDirectory.socket, runtimeDirectory.path).secret
    }
    return acceptConnection(socket, { broker, asBroker, secret, clock, unauthenticated: unproven })
  })
  next.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') onInUse()
    else giveUp({ is: 'failed', why: errorMessage(error) })
  })
  // Not through a cluster's primary process, which would share one socket among its workers.
  next.listen({ path, exclusive: true }, () => {
    server?.close()
    server = next
    onListening()
  })
}

/** @param why the reason for a socket file */
function listenAtFile(onListening: (socket: string) => void, why = ''): void {
  const name = newSocketName()
  const path = join(directory, name)
  const bytes = Buffer.byteLength(path)
  if (bytes <= maxPath) return listen(path, () => onListening(name))
  const limit = `socket file ${path} has a path of ${bytes} bytes, the limit is ${maxPath}; use a shorter directory`
  giveUp({ is: 'failed', why: why + limit })
}

/**
 * Over a socket file, another process may have become the broker while this one did not run: the file that names us was deleted. That
 * process published itself before it read the journal, so it knows whatever was in the journal before this check.
 */
function asBroker(send: () => void): void {
  // Its connection is ending: a client asks the next broker again.
  if (stopping) return
  if (published === undefined || published.isCurrent()) return send()
  unsent.add(send)
  if (!isPublishing) restore()
}

/** Restores what others find us by. Sends the replies that had to wait, unless another process may be the broker still. */
function restore(): void {
  try {
    broker?.repair()
  } catch {
    // Every grant retries, and reports why it fails.
  }
  if (isPublishing) return
  if (published !== undefined && !published.isCurrent()) return checkSoon()
  for (const send of unsent) send()
  unsent.clear()
}

/** Creates the directory again if need be, and begins a journal in it. @returns `before` when that must wait until we are published again */
function open(snapshot: Snapshot, before?: Journal): Journal {
  openRuntimeDirectory(directory, runtimeDirectory.socket, runtimeDirectory.path)
  const hidden = published !== undefined && broker !== undefined && !isPublished() && !isPublishing
  if (hidden) {
    const { number, socket, malformed } = currentGeneration(directory)
    const isOurs = socket === published?.socket || (malformed !== undefined && number === published?.number)
    // A broker whose file was deleted, too, has left its journal.
    if ((number > 0 && !isOurs) || isNameTaken() || isAnothers(directory, here)) withdraw()
    publishAgain(number)
  }
  try {
    const journal = openJournal(directory, here, snapshot, () => published?.isCurrent() !== false)
    watchDirectory()
    return journal
  } catch (error) {
    const mustWait = isPublishing && (error as NodeJS.ErrnoException).code === 'EEXIST'
    if (mustWait && before !== undefined) return before
    throw error
  }
}

/** Another broker is there. */
function withdraw(): never {
  published?.retire()
  process.exit(1)
}

/** Can a new process find us, where we serve over a socket file? */
function isPublished(): boolean {
  const { socket } = currentGeneration(directory)
  const isOurs = published?.isCurrent() && socket === published.socket
  return isOurs === true && existsSync(join(directory, socket))
}

/**
 * Our socket was deleted, or the file that names it, perhaps with the whole directory: the process that publishes the next
 * generation is the broker. @param number that of our generation, 0 when it is gone
 */
function publishAgain(number: number): void {
  isPublishing = true
  listenAtFile((socket) => {
    if (stopping) return
    let next: Publication | undefined
    try {
      next = publish(directory, number, socket, here)
    } catch {
      // A full disk, or no descriptor left. Only this broker knows what is held, if the journal is gone as well.
      isPublishing = false
      return checkSoon(retryPause)
    }
    if (next === undefined) return withdraw()
    published?.retire()
    published = next
    isPublishing = false
    if (isNameTaken()) withdraw()
    sweep(directory, next)
    restore()
  })
}

function isNameTaken(): boolean {
  const name = fixedAddress(runtimeDirectory, 'broker')
  return name !== undefined && findSocketHolder(name).is === 'ours'
}

/**
 * The files that others find us by are never written to, so the watches are silent until one of them is deleted, most likely
 * with the whole directory.
 */
function watchDirectory(): void {
  unwatchDirectory()
  const files = [runtimeFile(directory)]
  if (published !== undefined)
    files.push(generationFile(directory, published.number), join(directory, published.socket))
  for (const file of files) {
    try {
      const watcher = watch(file, { persistent: false }, () => checkSoon())
      watcher.on('error', () => watcher.close())
      watchers.add(watcher)
    } catch {
      // No watches left: every grant checks for the journal anyway.
    }
  }
}

function unwatchDirectory(): void {
  for (const watcher of watchers) watcher.close()
  watchers.clear()
}

function isIntact(): boolean {
  try {
    return existsSync(runtimeFile(directory)) && (published === undefined || isPublished())
  } catch {
    return false
  }
}

/** A process that deletes a directory begins with its files, and should find it empty at the end: wait before restoring anything. */
function checkSoon(pause = restorePause): void {
  stopChecking?.()
  stopChecking = clock.at(clock.now() + pause, () => {
    if (!stopping && (unsent.size > 0 || !isIntact())) restore()
  })
}

function stop(): void {
  if (stopping) return
  stopping = true
  broker?.stop()
  stopChecking?.()
  unwatchDirectory()
  published?.retire()
  server?.close(() => process.exit())
  for (const socket of sockets) socket.destroySoon()
}

/** @returns false when this process cannot run a broker */
function takeOwnership(): boolean {
  try {
    broker = createBroker(readJournal(directory), {
      clock,
      wall: Date.now,
      uptime: sinceBoot,
      here,
      open,
    })
    return true
  } catch (error) {
    const isOvertaken = published?.isCurrent() === false
    published?.retire()
    giveUp(isOvertaken ? { is: 'taken' } : { is: 'failed', why: errorMessage(error) })
    return false
  }
}

/** Does a broker, not known to be over, serve over a socket file? */
function anotherServesByFile(): boolean {
  try {
    const { socket, mark, malformed } = currentGeneration(directory)
    if (malformed !== undefined) return isOther(recordedBroker(directory, here))
    return socket !== '' && socket !== last.socket && mark !== undefined && !hasExited(mark, here)
  } catch (error) {
    // The directory is gone, and with it every socket file in it.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

function isOther(broker: ProcessIdentity | undefined): boolean {
  return broker !== undefined && !(broker.pid === here.pid && broker.space === here.space)
}

function beginByName(): void {
  if (runtimeDirectory.socket === 'abstract' && anotherServesByFile()) return giveUp({ is: 'taken' })
  if (!takeOwnership()) return
  if (runtimeDirectory.socket === 'abstract' && anotherServesByFile()) {
    broker?.stop()
    return giveUp({ is: 'taken' })
  }
  report({ is: 'up' })
}

/** @param successor a description of the stranger that has the name; undefined on systems without abstract names */
function beginByFile(successor?: string): void {
  listenAtFile((socket) => {
    published = publish(directory, last.number, socket, here)
    if (published === undefined) return giveUp({ is: 'taken' })
    if (successor !== undefined && replaced().is !== 'foreign') {
      published.retire()
      return giveUp({ is: 'taken' })
    }
    sweep(directory, published)
    if (takeOwnership()) report({ is: 'up' })
  }, successor && `${successor}; `)
}

/** The name is bound, perhaps by a process that is not a broker: finds out which. */
function replaced(): { readonly is: 'taken' | 'held' | 'foreign'; readonly why: string } {
  const name = fixedAddress(runtimeDirectory, 'broker') ?? ''
  // A broker that is stopped does not authenticate either.
  const holder = recordedBroker(directory, here) === undefined ? findSocketHolder(name) : undefined
  if (holder === undefined || holder.is === 'nobody') return { is: 'taken', why: '' }
  const why = `the socket name ${displayAddress(name)} is held by ${holder.who}`
  if (holder.is === 'foreign') return { is: 'foreign', why }
  const remedy = `which is no broker of ${directory}; end that process, or use a fresh directory with local({ directory, socket: 'file' })`
  return { is: 'held', why: `${why}, ${remedy}` }
}

function nameInUse(): void {
  if (runtimeDirectory.socket !== 'abstract') return giveUp({ is: 'taken' })
  try {
    const { is, why } = replaced()
    if (is !== 'foreign') giveUp({ is, why })
    else if (anotherServesByFile()) giveUp({ is: 'taken' })
    else beginByFile(why)
  } catch {
    // The system shows too little to tell.
    giveUp({ is: 'taken' })
  }
}

/**
 * Another user's process may bind an abstract name before us. The broker then serves over a socket file, while the directory keeps
 * its kind of socket:
 * ```
 *   by name                                          by file, because a stranger has the name
 *   1 bind the name                                  1 publish a generation with the socket file
 *   2 check: no live generation                      2 check: the name is a stranger's, no broker is in the journal
 *   3 write the journal, with our process in it      3 read and write the journal
 *   4 check again, and serve                         4 serve
 * ```
 * Each kind shows itself before it checks for the other, so of two simultaneous candidates at least one withdraws. A broker that
 * serves by name found no generation in step 4; the other candidate checks later than that, and finds the name or the journal ours.
 */
function begin(orders: BrokerCommand): void {
  runtimeDirectory = orders.runtimeDirectory
  last = orders.last
  directory = runtimeDirectory.directory
  const name = fixedAddress(runtimeDirectory, 'broker')
  if (name === undefined) beginByFile()
  else listen(name, beginByName, nameInUse)
}

parentPort?.on('message', (message: BrokerCommand | 'stop') => {
  if (message === 'stop') stop()
  else begin(message)
})
