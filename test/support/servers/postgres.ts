// PostgreSQL 15, one server with a private data directory.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { putBackSynced } from './durability.js'
import { unpacked } from './fetch.js'
import { launch, onFreePort, type Running } from './process.js'
import { type Shim, shim } from './shims.js'
import { handOver, makeOwnFolder, readable, runOwn, user } from './unprivileged.js'

export interface PostgresOptions {
  /** `clock` for `clockJump()`, `redo` for `powerCut()`. */
  readonly preload?: readonly Shim[]
  /** Settings that win over ours: `{ fsync: 'on' }`. */
  readonly settings?: Readonly<Record<string, string>>
}

export interface PostgresServer extends AsyncDisposable {
  readonly host: string
  /** The same over restarts. */
  readonly port: number
  /** Of the postmaster. */
  readonly pid: number
  /** `postgres://postgres@127.0.0.1:PORT/postgres` */
  readonly url: string
  /** Rows of a statement on a short connection of its own. */
  sql(text: string, values?: readonly unknown[]): Promise<Record<string, unknown>[]>
  /** What the server wrote so far. */
  log(): string
  /** kill -9 of the postmaster; resolves once it and all its backends are gone. */
  kill9(): Promise<void>
  /** Same port, same data; kills it first if it runs. */
  restart(): Promise<void>
  /** SIGSTOP for the postmaster and every backend. */
  pause(): void
  resume(): void
  /** Moves the server's wall clock by `ms` from where it stands. Needs `preload: ['clock']`. */
  clockJump(ms: number): void
  /** kill -9, and what was not synced of the WAL is gone. Down afterwards: `restart()`. Needs `preload: ['redo']`. */
  powerCut(): Promise<void>
  stop(): Promise<void>
}

/** Starts one on 127.0.0.1 and resolves when it serves; superuser `postgres`, no password. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const found = await unpacked('postgres15')
  const shims = await Promise.all((options.preload ?? []).map(shim))
  return onFreePort(async (port) => {
    const folder = makeOwnFolder('postgres15')
    const root = readable(found.root, folder)
    const bin = join(root, 'usr/lib/postgresql/15/bin')
    const data = join(folder.path, 'data')
    const clock = join(folder.path, 'clock')
    const log = join(folder.path, 'log')
    const redo = join(folder.path, 'redo')
    for (const file of [log, clock]) writeFileSync(file, file === clock ? Buffer.alloc(8) : '')
    for (const path of [data, redo]) mkdirSync(path, { mode: 0o700 })
    for (const path of [data, clock, redo]) handOver(path)
    const LD_LIBRARY_PATH = found.libraries.replace(found.root, root)
    const env = { LD_LIBRARY_PATH, LC_ALL: 'C', PGTZ: 'GMT' }
    await runOwn(
      join(bin, 'initdb'),
      ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync', '--no-locale', '-E', 'UTF8'],
      { cwd: folder.path, env },
    )
    const settings = {
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      fsync: 'off',
      jit: 'off',
      max_connections: '200',
      shared_buffers: '16MB',
      timezone: 'GMT',
      log_timezone: 'GMT',
      ...options.settings,
    }
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const start = () =>
      launch({
        name: `postgres on port ${port}`,
        command: join(bin, 'postgres'),
        args: ['-D', data, '-p', `${port}`, ...flags],
        env: {
          ...{ ...env, HOLDFAST_CLOCK: clock, HOLDFAST_REDO: redo, HOLDFAST_REDO_FILES: '/pg_wal/' },
          ...(shims.length > 0 && { LD_PRELOAD: shims.join(':') }),
        },
        folder: folder.path,
        log,
        ready: (logged) => /database system is ready to accept connections/.test(logged),
        // After a kill it replays its log first.
        readyWithin: 60_000,
        user,
      })
    try {
      const remove = () => folder.remove()
      const cut = () => void putBackSynced(data, redo)
      return controls(await start(), { port, start, clock, log, cut, remove })
    } catch (error) {
      await folder.remove()
      throw error
    }
  })
}

interface Place {
  readonly port: number
  readonly start: () => Promise<Running>
  readonly clock: string
  readonly log: string
  readonly cut: () => void
  readonly remove: () => Promise<void>
}

function controls(first: Running, { port, start, clock, log, cut, remove }: Place): PostgresServer {
  let running = first
  let jumped = 0
  const end = async (): Promise<void> => {
    // Backends lead groups of their own, and outlive the postmaster until they notice: see their parent's pid.
    const backends = childrenOf(running)
    await running.end('SIGKILL')
    for (const pid of backends) kill(pid, 'SIGKILL')
    while (backends.some((pid) => kill(pid, 0))) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const stop = async (): Promise<void> => {
    await end()
    await remove()
  }
  return {
    host: '127.0.0.1',
    port,
    get pid() {
      return running.pid
    },
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    async sql(text, values) {
      const client = new Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
      client.on('error', () => undefined)
      await client.connect()
      try {
        return (await client.query(text, values === undefined ? undefined : [...values])).rows
      } finally {
        await client.end()
      }
    },
    log: () => readFileSync(log, 'utf8'),
    kill9: end,
    async restart() {
      await end()
      running = await start()
    },
    pause() {
      running.pause()
      for (const pid of childrenOf(running)) kill(pid, 'SIGSTOP')
    },
    resume() {
      for (const pid of childrenOf(running)) kill(pid, 'SIGCONT')
      running.resume()
    },
    clockJump(ms) {
      jumped += ms
      const offset = Buffer.alloc(8)
      offset.writeBigInt64LE(BigInt(jumped))
      writeFileSync(clock, offset, { flag: 'r+' })
    },
    async powerCut() {
      await end()
      cut()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/** Backends and helpers: the postmaster's direct children, each the leader of a session of its own. */
function childrenOf(running: Running): readonly number[] {
  if (!running.alive) return []
  const { pid } = running
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').map(Number).filter(Boolean)
}

/** False once it is gone; a zombie counts as gone. */
function kill(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    if (signal === 0) return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    process.kill(pid, signal)
    return true
  } catch {
    return false
  }
}
