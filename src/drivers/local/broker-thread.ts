/**
 * The thread of the elected process. Its first message is its orders, until then it stands by: it binds the address, which
 * is the election itself, reads the journal, and serves. It is a thread so that code of the user that blocks the event
 * loop stops nobody else. Tells its process `up`, `taken` (another broker has the address) or `failed`, and ends when told
 * `stop` or when its process ends.
 */
import { existsSync, type FSWatcher, watch } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { parentPort } from 'node:worker_threads'
import { systemClock } from '../../core/clock.js'
import { fixedAddress } from './address.js'
import { type Broker, makeBroker } from './broker.js'
import { serve } from './doorkeeper.js'
import { currentGeneration, newSocketName, publish, retire, sweep } from './generation.js'
import { type Home, homeFile, messageOf, openHome } from './home.js'
import { openJournal, readJournal } from './journal.js'
import type { Snapshot } from './ledger.js'
import { thisProcess } from './processes.js'

export interface Orders {
  readonly home: Home
  /** Only for socket files: the generation that has ended. */
  readonly last: number
}

export type Report = { readonly is: 'up' | 'taken' } | { readonly is: 'failed'; readonly why: string }

/** The longest path of a socket file that every system takes, in bytes. */
const longestPath = 103

let home: Home
let directory: string
let generation = 0
const here = thisProcess()
const clock = systemClock()
const sockets = new Set<Socket>()
let broker: Broker | undefined
let server: Server | undefined
let watcher: FSWatcher | undefined
let clearLook: (() => void) | undefined
let stopping = false

function report(message: Report): void {
  parentPort?.postMessage(message)
}

/** Another broker has the address, or there is no way to be one: the thread ends. */
function giveUp(message: Report): void {
  report(message)
  process.exit()
}

function listen(onListening: (socket: string) => void): void {
  const name = newSocketName()
  const path = fixedAddress(home, 'broker') ?? join(directory, name)
  if (home.socket === 'file' && Buffer.byteLength(path) > longestPath) {
    const why = `socket file ${path} has a path of ${Buffer.byteLength(path)} bytes, the limit is ${longestPath}; use a shorter directory`
    return giveUp({ is: 'failed', why })
  }
  const next = createServer((socket) => {
    if (broker === undefined || stopping) return socket.destroy()
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    return serve(socket, { broker, secret: () => openHome(directory, home.socket).secret })
  })
  next.on('error', (error: NodeJS.ErrnoException) => {
    giveUp(error.code === 'EADDRINUSE' ? { is: 'taken' } : { is: 'failed', why: messageOf(error) })
  })
  // Not through the primary of a cluster: it would share one socket among its workers.
  next.listen({ path, exclusive: true }, () => {
    server?.close()
    server = next
    onListening(name)
  })
}

/** Makes the directory again if need be, and begins a journal in it. */
function open(snapshot: Snapshot) {
  openHome(directory, home.socket)
  const again = home.socket === 'file' && broker !== undefined
  if (again && currentGeneration(directory).number > 0) process.exit(1)
  const journal = openJournal(directory, here, snapshot)
  if (again) publishAgain()
  watchHome()
  return journal
}

/** The directory was deleted, and our socket with it: whoever publishes first in the new one is the broker. */
function publishAgain(): void {
  listen((socket) => {
    generation = 1
    if (!publish(directory, 0, socket, here)) process.exit(1)
  })
}

/** The home file is never written to, so it is quiet until somebody deletes it, most likely with the whole directory. */
function watchHome(): void {
  watcher?.close()
  try {
    watcher = watch(homeFile(directory), { persistent: false }, lookSoon)
    watcher.on('error', () => watcher?.close())
  } catch {
    // Out of watches: every grant looks for the journal anyway.
  }
}

/** Whoever deletes a directory begins with the files in it, and should find it empty in the end. */
function lookSoon(): void {
  clearLook?.()
  clearLook = clock.at(clock.now() + 20, () => {
    if (existsSync(homeFile(directory)) || stopping) return
    try {
      broker?.mend()
    } catch {
      // Every grant tries again, and says why it cannot.
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
    if (home.socket === 'file') retire(directory, generation, here)
  } catch {
    // The directory is gone, and with it whoever could have read this.
  }
  server?.close(() => process.exit())
  for (const socket of sockets) socket.destroySoon()
}

function begin(orders: Orders): void {
  home = orders.home
  directory = home.directory
  generation = orders.last + 1
  listen((socket) => {
    if (home.socket === 'file') {
      if (!publish(directory, orders.last, socket, here)) return giveUp({ is: 'taken' })
      sweep(directory, generation, socket)
    }
    try {
      broker = makeBroker(readJournal(directory), {
        clock,
        wall: Date.now,
        uptime: () => uptime() * 1000,
        here,
        open,
      })
    } catch (error) {
      return giveUp({ is: 'failed', why: messageOf(error) })
    }
    return report({ is: 'up' })
  })
}

parentPort?.on('message', (message: Orders | 'stop') => {
  if (message === 'stop') stop()
  else begin(message)
})
