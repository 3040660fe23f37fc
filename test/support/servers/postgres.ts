// Long because one server and all that can be done to it are told in one place.
// PostgreSQL 15, one server with a private data directory; alone or as the standby of another.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { until } from '../until.js'
import { putBackSynced } from './durability.js'
import { unpacked } from './fetch.js'
import { baseBackup, cloneData, freshData, makeStandby } from './postgres-data.js'
import { awaitStandstill, launch, onFreePort, type Running } from './process.js'
import { type Shim, shim } from './shims.js'
import { handOver, makeOwnFolder, readable, user } from './unprivileged.js'

export interface PostgresOptions {
  /** `clock` for `clockJump()`, `redo` for `powerCut()`. */
  readonly preload?: readonly Shim[]
  /** Settings that win over ours: `{ fsync: 'on' }`. */
  readonly settings?: Readonly<Record<string, string>>
  /** Streams from that one, asynchronously, until `cutOff()` or `promote()`. Default: a primary of its own. */
  readonly standbyOf?: PostgresServer
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
  /** A base backup of it, for `restore()` or a standby. @param to a folder that does not exist; default: one of its own */
  backUp(to?: string): Promise<void>
  /** Starts with the last backup in the place of its data; a running server is killed first. */
  restore(): Promise<void>
  /** A standby has by now what its primary has committed. */
  caughtUp(): Promise<void>
  /** A standby gets nothing more from its primary. */
  cutOff(): Promise<void>
  /** A standby becomes a primary. */
  promote(): Promise<void>
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
    const copy = join(folder.path, 'copy')
    const { standbyOf } = options
    mkdirSync(redo, { mode: 0o700 })
    for (const path of [clock, redo]) handOver(path)
    const LD_LIBRARY_PATH = found.libraries.replace(found.root, root)
    const env = { LD_LIBRARY_PATH, LC_ALL: 'C', PGTZ: 'GMT' }
    if (standbyOf === undefined) {
      await freshData(bin, env, data)
    } else {
      await standbyOf.backUp(data)
      makeStandby(data, standbyOf.port)
    }
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
        ready: (logged) => /database system is ready to accept (read-only )?connections/.test(logged),
        // After a kill it replays its log first.
        readyWithin: 60_000,
        user,
      })
    try {
      const remove = () => folder.remove()
      const cut = () => void putBackSynced(data, redo)
      return controls(await start(), { port, start, clock, log, cut, remove, data, copy, standbyOf })
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
  readonly data: string
  readonly copy: string
  readonly standbyOf: PostgresServer | undefined
}

function controls(first: Running, place: Place): PostgresServer {
  const { port, start, clock, log, cut, remove, data, copy, standbyOf } = place
  let running = first
  let jumped = 0
  const end = async (): Promise<void> => {
    // Backends lead groups of their own, and outlive the postmaster until they notice: see their parent's pid.
    const backends = listChildren(running)
    await running.end('SIGKILL')
    for (const pid of backends) kill(pid, 'SIGKILL')
    while (backends.some((pid) => kill(pid, 0))) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const stop = async (): Promise<void> => {
    await end()
    await remove()
  }
  const sql: PostgresServer['sql'] = (text, values) =>
    connected(port, async (client) => (await client.query(text, values && [...values])).rows)
  return {
    host: '127.0.0.1',
    port,
    get pid() {
      return running.pid
    },
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    sql,
    log: () => readFileSync(log, 'utf8'),
    kill9: end,
    async restart() {
      await end()
      running = await start()
    },
    pause() {
      running.pause()
      const children = listChildren(running)
      for (const pid of children) kill(pid, 'SIGSTOP')
      for (const pid of children) awaitStandstill(pid)
    },
    resume() {
      for (const pid of listChildren(running)) kill(pid, 'SIGCONT')
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
    async backUp(to = copy) {
      rmSync(to, { recursive: true, force: true })
      await connected(port, (client) => baseBackup(client, data, to))
    },
    async restore() {
      await end()
      rmSync(data, { recursive: true })
      cloneData(copy, data)
      running = await start()
    },
    async caughtUp() {
      // Where the next record would begin may lie behind the header of a page that nothing is written to: the end of a commit is reached.
      await standbyOf?.sql(`select pg_logical_emit_message(true, 'holdfast', '')`)
      const [row] = (await standbyOf?.sql('select pg_current_wal_flush_lsn()::text as lsn')) ?? []
      const replayed = () => sql('select pg_last_wal_replay_lsn() >= $1::pg_lsn as yes', [row?.['lsn']])
      await until(async () => (await replayed())[0]?.['yes'], { what: 'the standby to have all of it' })
    },
    async cutOff() {
      await sql(`alter system set primary_conninfo = ''`)
      await sql('select pg_reload_conf()')
      const receives = async () => (await sql('select pid from pg_stat_wal_receiver')).length > 0
      await until(async () => !(await receives()), { what: 'the standby to be cut off' })
    },
    promote: async () => void (await sql('select pg_promote()')),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function connected<T>(port: number, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Backends and helpers: the postmaster's direct children, each the leader of a session of its own. */
function listChildren(running: Running): readonly number[] {
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
