// The verbs of a RedisServer on its process, its folder and its clock.
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { connectResp, type Reply } from '../resp.js'
import { cutToSynced, unsynced } from './durability.js'
import type { WorkFolder } from './places.js'
import type { Running } from './process.js'
import type { NodeOptions, RedisServer } from './redis-node.js'
import type { Shim } from './shims.js'

const host = '127.0.0.1'
const answerWithin = 10_000

/** Where one server keeps its things. */
export interface Place {
  readonly folder: WorkFolder
  /** The server's own directory. */
  readonly data: string
  readonly log: string
  /** Offset of its wall clock, read by the `clock` shim. */
  readonly clock: string
  /** Written by the `power` shim. */
  readonly records: string
}

interface Setup {
  readonly options: NodeOptions
  readonly place: Place
  readonly port: number
  readonly launchIt: (args: readonly string[]) => Promise<Running>
}

/** Starts the process and returns what a test does with it. */
// Longer than a function should be: a table of short verbs over three variables.
export async function controls({ options, place, port, launchIt }: Setup): Promise<RedisServer> {
  const { flavour, role, preload } = options
  const name = `${flavour} ${role} on port ${port}`
  let args = options.args(port, place.data)
  let running = await launchIt(args)
  let stopped: Promise<void> | undefined
  let clock = 0

  function needs(shim: Shim, what: string): void {
    if (!preload.includes(shim)) throw new Error(`${what} needs the server started with preload: ['${shim}']`)
  }
  function wipe(): void {
    for (const folder of [place.data, place.records]) {
      rmSync(folder, { recursive: true })
      mkdirSync(folder)
    }
    args = options.args(port, place.data)
  }
  const kill9 = (): Promise<void> => running.end('SIGKILL')
  const end = async (): Promise<void> => {
    await kill9()
    await place.folder.remove()
  }
  const stop = (): Promise<void> => (stopped ??= end())

  return {
    flavour,
    host,
    port,
    url: `redis://${host}:${port}`,
    folder: place.folder.path,
    get pid() {
      if (!running.alive) throw new Error(`${name} is down and has no pid`)
      return running.pid
    },
    get running() {
      return running.alive
    },
    log: () => readFileSync(place.log, 'utf8'),
    cli: (...words) => command(port, words),
    client: () => connectResp(port),
    kill9,
    restart: async ({ keepData = true, graceful = false } = {}) => {
      if (stopped) throw new Error(`${name} was stopped for good and cannot restart`)
      await running.end(graceful ? 'SIGTERM' : 'SIGKILL')
      if (!keepData) wipe()
      running = await launchIt(args)
    },
    pause: () => running.pause(),
    resume: () => running.resume(),
    clockJump: (ms) => {
      needs('clock', 'clockJump()')
      clock += ms
      setOffset(place.clock, clock)
    },
    unsynced: () => {
      needs('power', 'unsynced()')
      return unsynced(place.data, place.records)
    },
    powerCut: async () => {
      needs('power', 'powerCut()')
      await kill9()
      cutToSynced(place.data, place.records)
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

// In place and in one write: the server has this file mapped and reads it at any moment.
function setOffset(path: string, ms: number): void {
  const offset = Buffer.alloc(8)
  offset.writeBigInt64LE(BigInt(Math.round(ms)))
  const file = openSync(path, 'r+')
  writeSync(file, offset, 0, offset.length, 0)
  closeSync(file)
}

/** One command on a connection of its own. */
export async function command(port: number, words: readonly (string | number)[]): Promise<Reply> {
  await using client = await connectResp(port)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`no answer from port ${port} to ${words.join(' ')} within ${answerWithin} ms`)
    timer = setTimeout(reject, answerWithin, error)
  })
  try {
    return await Promise.race([client.send(...words), late])
  } finally {
    clearTimeout(timer)
  }
}
