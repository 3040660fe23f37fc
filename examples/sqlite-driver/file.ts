/**
 * The SQLite file: rows of names, transactions on them, and news of what other processes have changed.
 *
 * SQLite cannot notify other processes. While somebody here waits, the file is asked every few milliseconds for
 * `PRAGMA data_version`, which changes when another process has committed.
 *
 * Time is the machine's monotonic clock, which all of its processes share; tokens are based on its wall clock. A restart
 * of the machine ends every process, and so every hold and every wait.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { BackendError, table } from 'holdfast/driver'

/** What `DatabaseSync` of node:sqlite, better-sqlite3 and libsql have in common. */
export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): {
    get(...values: unknown[]): unknown
    all(...values: unknown[]): unknown[]
    run(...values: unknown[]): unknown
  }
}

interface Stored {
  readonly name: string
  readonly boot: string
  readonly token: number
  readonly row: string
}

export type Command<A> = (row: table.Row, now: number, wall: number) => table.Step<A>

/** How long a command tries to get the file's write lock before the store counts as unavailable, in ms. */
const lockTimeout = 5_000
/** A row without holders and waiters is forgotten after this time, in ms; the row named '' keeps the greatest token. */
const idleFor = 60_000
const sweepEvery = 1_000

const schema = `create table if not exists holdfast_rows
  (name text primary key, boot text not null, token integer not null, row text not null, changed real not null)`
const idle = `name <> '' and (boot <> ? or changed < ? and row not like '%"attempt":%')`

export class SqliteFile {
  readonly #database: SqliteDatabase
  readonly #pollEvery: number
  readonly #watchers = new Set<{ readonly name: string; readonly look: () => void }>()
  #poller: NodeJS.Timeout | undefined
  #version: unknown
  #commands = 0
  #ready = false

  constructor(database: SqliteDatabase, pollEvery: number) {
    this.#database = database
    this.#pollEvery = pollEvery
  }

  /** Runs one command in a transaction; waits and tries again while another process has the file locked. */
  async run<A>(name: string, command: Command<A>, signal?: AbortSignal): Promise<A> {
    const giveUp = monotonic() + lockTimeout
    for (;;) {
      try {
        return this.#transaction(name, command)
      } catch (cause) {
        if (!isBusy(cause)) throw new BackendError('sqlite', `the file cannot be used: ${cause}`, { cause })
        const tried = monotonic() >= giveUp || signal?.aborted === true
        if (tried) throw new BackendError('sqlite', 'the file is locked', { cause, unanswered: true })
      }
      await pause(1 + 4 * Math.random())
    }
  }

  /** The row of `name`, without what a restart of the machine has ended. */
  row(name: string): table.Row {
    const select = `select name, boot, token, row from holdfast_rows where name in (?, '') order by name desc limit 1`
    const found = this.#database.prepare(select).get(name) as Stored | undefined
    if (found?.name === name && found.boot === boot) return JSON.parse(found.row)
    return table.emptyRow(name, found?.token)
  }

  /** False when the attempt may have been granted; also when the file cannot be read, so that the waiter asks and gets the error. */
  isWaiting(name: string, attempt: string): boolean {
    try {
      const { holds, queue } = this.row(name)
      return holds.length > 0 && queue.some((entry) => entry.attempt === attempt)
    } catch {
      return false
    }
  }

  names(prefix: string): string[] {
    this.#prepare()
    const select = `select name from holdfast_rows where name <> '' and substr(name, 1, length(?)) = ? order by name`
    return (this.#database.prepare(select).all(prefix, prefix) as Stored[]).map(({ name }) => name)
  }

  /** Calls `look` whenever the row of `name` may have changed. Returns a function that ends it. */
  watch(name: string, look: () => void): () => void {
    const watcher = { name, look }
    this.#watchers.add(watcher)
    this.#poller ??= setInterval(() => this.#poll(), this.#pollEvery)
    return () => {
      this.#watchers.delete(watcher)
      if (this.#watchers.size > 0) return
      clearInterval(this.#poller)
      this.#poller = undefined
    }
  }

  #poll(): void {
    let version: unknown
    try {
      version = (this.#database.prepare('pragma data_version').get() as { data_version: number }).data_version
    } catch {
      // The wait asks again then, and gets the error.
    }
    if (version !== undefined && version === this.#version) return
    this.#version = version
    for (const { look } of [...this.#watchers]) look()
  }

  #transaction<A>(name: string, command: Command<A>): A {
    this.#prepare()
    this.#database.exec('begin immediate')
    try {
      const before = this.row(name)
      const { row, answer } = command(before, monotonic(), Date.now())
      if (row !== before) this.#save(row)
      if (++this.#commands % sweepEvery === 0) this.#sweep()
      this.#database.exec('commit')
      if (row !== before) for (const one of [...this.#watchers]) if (one.name === name) one.look()
      return answer
    } catch (error) {
      try {
        this.#database.exec('rollback')
      } catch {
        // SQLite has rolled back by itself.
      }
      throw error
    }
  }

  #prepare(): void {
    if (this.#ready) return
    for (const setting of ['busy_timeout = 0', 'journal_mode = wal', 'synchronous = normal'])
      this.#database.prepare(`pragma ${setting}`).get()
    this.#database.exec(schema)
    this.#ready = true
  }

  #save({ name, token, ...rest }: table.Row): void {
    const insert = 'insert or replace into holdfast_rows values (?, ?, ?, ?, ?)'
    const row = JSON.stringify({ name, token, ...rest })
    this.#database.prepare(insert).run(name, boot, token, row, monotonic())
  }

  #sweep(): void {
    const values = [boot, monotonic() - idleFor]
    const greatest = `select '', '', max(token), '', 0 from holdfast_rows where name = '' or ${idle} having max(token) > 0`
    this.#database.prepare(`insert or replace into holdfast_rows ${greatest}`).run(...values)
    this.#database.prepare(`delete from holdfast_rows where ${idle}`).run(...values)
  }
}

/** Milliseconds since the machine started: the same in all of its processes. */
export function monotonic(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

const boot = bootId()

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    // Elsewhere: the moment of the start. A wall clock that is set looks like a restart there, so do not set it.
    return `started ${Math.round((Date.now() - monotonic()) / 60_000)}`
  }
}

function isBusy(error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  return String(code).startsWith('SQLITE_BUSY') || errcode === 5
}
