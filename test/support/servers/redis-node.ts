// One process of the Redis family, a data server or a Sentinel, with all that can be done to it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reply, Resp } from '../resp.js'
import { findLoader, unpacked } from './fetch.js'
import { makeFolder } from './places.js'
import { launch, onFreePort, type Program, type Running } from './process.js'
import { controls, type Place } from './redis-controls.js'
import { type Shim, shim } from './shims.js'

/** Redis 7.0 · Redis 8.0 · Valkey 8.1. */
export type Flavour = 'redis7' | 'redis8' | 'valkey8'

/** A server of the Redis family that was started for a test. */
export interface RedisServer extends AsyncDisposable {
  readonly flavour: Flavour
  readonly host: string
  /** The same over restarts. */
  readonly port: number
  /** Of the present process; throws while the server is down. */
  readonly pid: number
  readonly running: boolean
  /** `redis://127.0.0.1:PORT` */
  readonly url: string
  /** Private; its `data` is the server's directory. Removed by `stop()`. */
  readonly folder: string
  /** What the server wrote so far, over restarts. */
  log(): string
  /** One command on a short connection of its own. An error reply rejects with RespError; no reply in 10 s rejects too. */
  cli(...args: readonly (string | number)[]): Promise<Reply>
  /** A raw connection; the caller closes it. */
  client(): Promise<Resp>
  /** Resolves once the process is gone. */
  kill9(): Promise<void>
  /** Same port, same arguments; a running server is killed first. Without `keepData` (default true) it starts empty. */
  restart(options?: {
    readonly keepData?: boolean
    /** SIGTERM instead of SIGKILL. Default false. */
    readonly graceful?: boolean
  }): Promise<void>
  /** SIGSTOP; when it returns the server is paused. */
  pause(): void
  resume(): void
  /** Moves the server's wall clock by `ms` from where it stands, over restarts too. Needs `preload: ['clock']`. */
  clockJump(ms: number): void
  /** Bytes of its append-only files that a power cut would lose now. Needs `preload: ['power']`. */
  unsynced(): number
  /** kill -9, and whatever was not fsynced is gone. Down afterwards: `restart()`. Needs `preload: ['power']`. */
  powerCut(): Promise<void>
  /** Final: the process is killed, the folder removed. May be called twice; = `Symbol.asyncDispose`. */
  stop(): Promise<void>
}

/** What makes one process of the family differ from another. */
export interface NodeOptions {
  readonly flavour: Flavour
  readonly role: 'server' | 'sentinel'
  readonly preload: readonly Shim[]
  readonly port?: number | undefined
  /** The arguments for this port and data directory; called for each start on an empty directory, may write files. */
  readonly args: (port: number, data: string) => readonly string[]
  /** What it logs when it serves. */
  readonly ready: RegExp
  /** Runs after each start, before anybody may use it. */
  readonly settle?: (port: number) => Promise<unknown>
}

/** Starts one. */
export async function startNode(options: NodeOptions): Promise<RedisServer> {
  const { flavour, role, ready } = options
  const program = await findProgram(options)
  return onFreePort(async (port) => {
    const place = makePlace(flavour)
    const launchIt = async (args: readonly string[]): Promise<Running> => {
      const running = await launch({
        name: `${flavour} ${role} on port ${port}`,
        command: program.command,
        args: [...program.args, ...args],
        env: { ...program.env, HOLDFAST_CLOCK: place.clock, HOLDFAST_POWER: place.records },
        folder: place.data,
        log: place.log,
        ready: (logged) => ready.test(logged),
      })
      try {
        await options.settle?.(port)
        return running
      } catch (error) {
        await running.end('SIGKILL')
        throw error
      }
    }
    try {
      return await controls({ options, place, port, launchIt })
    } catch (error) {
      await place.folder.remove()
      throw error
    }
  }, options.port)
}

function makePlace(flavour: Flavour): Place {
  const folder = makeFolder(flavour)
  const inside = (name: string): string => join(folder.path, name)
  const place = {
    folder,
    data: inside('data'),
    log: inside('log'),
    clock: inside('clock'),
    records: inside('synced'),
  }
  mkdirSync(place.data)
  mkdirSync(place.records)
  writeFileSync(place.log, '')
  writeFileSync(place.clock, Buffer.alloc(8))
  return place
}

// Redis 7 runs on the machine's C library and only lacks two small ones. The others need their own C library, and thus
// their own loader, which then is the program as far as the kernel knows; pid and signals are the server's.
async function findProgram({
  flavour,
  preload,
}: NodeOptions): Promise<Pick<Program, 'command' | 'args' | 'env'>> {
  const shims = (await Promise.all(preload.map(shim))).join(':')
  const { root, libraries } = await unpacked(flavour === 'redis7' ? 'redis7' : 'redis8')
  const binary = join(root, 'usr/bin', flavour === 'valkey8' ? 'valkey-server' : 'redis-server')
  if (flavour === 'redis7') {
    return {
      command: binary,
      args: [],
      env: { LD_LIBRARY_PATH: libraries, ...(shims && { LD_PRELOAD: shims }) },
    }
  }
  const preloads = shims ? ['--preload', shims] : []
  return { command: findLoader(libraries), args: [...preloads, '--library-path', libraries, binary], env: {} }
}
