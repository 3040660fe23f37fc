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
import { fixedAddress, shownAddress } from './address.js'
import { type Broker, makeBroker } from './broker.js'
import type { Snapshot } from './durable-table.js'
import { currentGeneration, type Generation, newSocketName, publish, retire, sweep } from './file-election.js'
import { holderOf } from './holder.js'
import { openJournal, readJournal, recordedBroker } from './journal.js'
import { isOver, thisProcess } from './processes.js'
import { type Home, homeFile, messageOf, openHome } from './runtime-directory.js'
import { serve } from './server-connection.js'

export interface Orders {
  readonly home: Home
  /** The newest generation of socket files, which has ended. */
  readonly last: Generation
}

export type Report =
  | { readonly is: 'up' | 'taken' }
  | { readonly is: 'failed' | 'held'; readonly why: string }

/** The longest path of a socket file that every system accepts, in bytes. */
const longestPath = 103

let home: Home
let directory: string
let last: Generation
/** Our generation when we serve over a socket file; else 0. */
let generation = 0
const here = thisProcess()
const user = process.getuid?.()
const clock = systemClock()
const sockets = new Set<Socket>()
const unproven = new Set<Socket>()
let broker: Broker | undefined
let server: Server | undefined
let watcher: FSWatcher | undefined
let clearLook: (() => void) | undefined
let stopping = false

function report(message: Report): void {
  parentPort?.postMessage(message)
}

/** Another broker has the address, or this process cannot run one: the thread ends. */
function giveUp(message: Report): void {
  report(message)
  process.exit()
}

function listen(path: string, onListening: () => void, onTaken = () => giveUp({ is: 'taken' })): void {
  const next = createServer((socket) => {
    if (broker === undefined || stopping) return socket.destroy()
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    const secret = () => {
      // The process now runs as another user: processes of the previous user can no longer recognise us as theirs.
      if (process.getuid?.() !== user) process.exit(1)
      return openHome(directory, home.socket).secret
    }
    return serve(socket, { broker, secret, clock, unproven })
  })
  next.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') onTaken()
    else giveUp({ is: 'failed', why: messageOf(error) })
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
  if (bytes <= longestPath) return listen(path, () => onListening(name))
  const limit = `socket file ${path} has a path of ${bytes} bytes, the limit is ${longestPath}; use a shorter directory`
  giveUp({ is: 'failed', why: why + limit })
}

/** Creates the directory again if need be, and begins a journal in it. */
function open(snapshot: Snapshot) {
  openHome(directory, home.socket)
  const again = generation > 0 && broker !== undefined
  if (again && (currentGeneration(directory).number > 0 || anotherHasTheName())) process.exit(1)
  const journal = openJournal(directory, here, snapshot)
  if (again) publishAgain()
  watchHome()
  return journal
}

/** The directory was deleted, and our socket with it: the process that publishes first in the new one is the broker. */
function publishAgain(): void {
  listenAtFile((socket) => {
    generation = 1
    if (!publish(directory, 0, socket, here) || anotherHasTheName()) process.exit(1)
  })
}

function anotherHasTheName(): boolean {
  const name = fixedAddress(home, 'broker')
  return name !== undefined && holderOf(name).is === 'ours'
}

/** The home file is never written to, so the watch is silent until the file is deleted, most likely with the whole directory. */
function watchHome(): void {
  watcher?.close()
  try {
    watcher = watch(homeFile(directory), { persistent: false }, lookSoon)
    watcher.on('error', () => watcher?.close())
  } catch {
    // No watches left: every grant checks for the journal anyway.
  }
}

/** A process that deletes a directory begins with its files, and should find it empty at the end: wait before restoring anything. */
function lookSoon(): void {
  clearLook?.()
  clearLook = clock.at(clock.now() + 20, () => {
    if (existsSync(homeFile(directory)) || stopping) return
    try {
      broker?.mend()
    } catch {
      // Every grant retries, and reports why it fails.
    }
  })
}

function stop(): void {
  if (stopping) return
  stopping = true
  broker?.stop()
  clearLook?.()
  watcher?.close()
  try {
    if (generation > 0) retire(directory, generation, here)
  } catch {
    // The directory is gone, so no process could have read this.
  }
  server?.close(() => process.exit())
  for (const socket of sockets) socket.destroySoon()
}

/** @returns false when this process cannot run a broker */
function makeOurs(): boolean {
  try {
    broker = makeBroker(readJournal(directory), {
      clock,
      wall: Date.now,
      uptime: sinceBoot,
      here,
      open,
    })
    return true
  } catch (error) {
    giveUp({ is: 'failed', why: messageOf(error) })
    return false
  }
}

/** Does a broker, not known to be over, serve over a socket file? */
function anotherServesByFile(): boolean {
  try {
    const { socket, mark } = currentGeneration(directory)
    return socket !== '' && socket !== last.socket && mark !== undefined && !isOver(mark, here)
  } catch (error) {
    // The directory is gone, and with it every socket file in it.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

function beginByName(): void {
  if (home.socket === 'abstract' && anotherServesByFile()) return giveUp({ is: 'taken' })
  if (!makeOurs()) return
  if (home.socket === 'abstract' && anotherServesByFile()) {
    broker?.stop()
    return giveUp({ is: 'taken' })
  }
  report({ is: 'up' })
}

/** @param usurper a description of the stranger that has the name; undefined on systems without abstract names */
function beginByFile(usurper?: string): void {
  listenAtFile((socket) => {
    if (!publish(directory, last.number, socket, here)) return giveUp({ is: 'taken' })
    generation = last.number + 1
    if (usurper !== undefined && usurped().is !== 'foreign') {
      retire(directory, generation, here)
      return giveUp({ is: 'taken' })
    }
    sweep(directory, generation, socket)
    if (makeOurs()) report({ is: 'up' })
  }, usurper && `${usurper}; `)
}

/** The name is bound, perhaps by a process that is not a broker: finds out which. */
function usurped(): { readonly is: 'taken' | 'held' | 'foreign'; readonly why: string } {
  const name = fixedAddress(home, 'broker') ?? ''
  // A broker that is stopped does not authenticate either.
  const holder = recordedBroker(directory, here) === undefined ? holderOf(name) : undefined
  if (holder === undefined || holder.is === 'nobody') return { is: 'taken', why: '' }
  const why = `the socket name ${shownAddress(name)} is held by ${holder.who}`
  if (holder.is === 'foreign') return { is: 'foreign', why }
  const remedy = `which is no broker of ${directory}; end that process, or use a fresh directory with local({ directory, socket: 'file' })`
  return { is: 'held', why: `${why}, ${remedy}` }
}

function nameIsTaken(): void {
  if (home.socket !== 'abstract') return giveUp({ is: 'taken' })
  try {
    const { is, why } = usurped()
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
function begin(orders: Orders): void {
  home = orders.home
  last = orders.last
  directory = home.directory
  const name = fixedAddress(home, 'broker')
  if (name === undefined) beginByFile()
  else listen(name, beginByName, nameIsTaken)
}

parentPort?.on('message', (message: Orders | 'stop') => {
  if (message === 'stop') stop()
  else begin(message)
})
