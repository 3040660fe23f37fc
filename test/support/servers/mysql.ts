// Long because one server and all that can be done to it are told in one place.
// MariaDB and MySQL as single servers, with all that can be done to them.
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import { putBackSynced } from './durability.js'
import { binaries, type Flavour, freshData, layout } from './mysql-data.js'
import { makeFolder } from './places.js'
import { launch, onFreePort, type Running } from './process.js'
import { type Shim, shim } from './shims.js'

export type { Flavour } from './mysql-data.js'

export interface MysqlOptions {
  /** Default `mariadb`. */
  readonly flavour?: Flavour
  /** `clock` for `clockJump()`, `redo` for `powerCut()`. */
  readonly preload?: readonly Exclude<Shim, 'power'>[]
  /** More arguments, which win over ours. */
  readonly args?: readonly string[]
}

export type Row = Readonly<Record<string, unknown>>

export interface MysqlServer extends AsyncDisposable {
  readonly flavour: Flavour
  readonly host: string
  /** The same over restarts. */
  readonly port: number
  /** Of the present process; throws while the server is down. */
  readonly pid: number
  readonly running: boolean
  /** `mysql://root@127.0.0.1:PORT/holdfast`; the user has no password and all rights, the database is empty at first. */
  readonly url: string
  readonly folder: string
  log(): string
  /** One statement on a short connection of its own. */
  query(sql: string): Promise<readonly Row[]>
  kill9(): Promise<void>
  /** Same port, same arguments; a running server is killed first. Without `keepData` (default true) it starts empty. */
  restart(options?: { readonly keepData?: boolean }): Promise<void>
  /** A copy of the data directory as it is now, for `restore()`. Only while the server is down. */
  copyData(): void
  /** Starts with the copy in the place of its data, as if restored from a backup; a running server is killed first. */
  restore(): Promise<void>
  /** SIGSTOP; when it returns the server is paused. */
  pause(): void
  resume(): void
  /** Moves the server's wall clock by `ms` from where it stands. Needs `preload: ['clock']`. */
  clockJump(ms: number): void
  /** kill -9, and what was not synced of the redo log is gone. Down afterwards: `restart()`. Needs `preload: ['redo']`. */
  powerCut(): Promise<void>
  /** Final: the process is killed, the folder removed. May be called twice; = `Symbol.asyncDispose`. */
  stop(): Promise<void>
}

const host = '127.0.0.1'

/** Small and quick. Commits reach the operating system, not the disk: what a kill -9 needs, and a power cut would not. */
const quick = [
  ...['--skip-log-bin', '--skip-name-resolve', '--performance-schema=OFF', '--bind-address=127.0.0.1'],
  ...['--innodb-flush-log-at-trx-commit=2', '--max-connections=200', '--character-set-server=utf8mb4'],
]

const frugal: Record<Flavour, readonly string[]> = {
  mariadb: ['--innodb-buffer-pool-size=32M'],
  mysql: [
    ...[
      '--mysqlx=OFF',
      '--innodb-buffer-pool-size=8M',
      '--innodb-log-buffer-size=1M',
      '--table-open-cache=64',
    ],
    ...['--table-definition-cache=400', '--innodb-doublewrite=OFF'],
  ],
}

const redoFiles: Record<Flavour, string> = { mariadb: 'ib_logfile', mysql: '#innodb_redo/' }

const users = `create database if not exists holdfast;
create user if not exists 'root'@'%';
grant all privileges on *.* to 'root'@'%' with grant option;
`

// Longer than a function should be: a table of short verbs over a few variables.
export async function startMysql(options: MysqlOptions = {}): Promise<MysqlServer> {
  const { flavour = 'mariadb', preload = [] } = options
  const server = await binaries(flavour)
  const shims = await Promise.all(preload.map(shim))
  return onFreePort(async (port) => {
    const folder = makeFolder(flavour)
    const inside = (name: string) => join(folder.path, name)
    const places = ['data', 'log', 'clock', 'init.sql', 'redo', 'copy', 'tmp']
    const [data, log, clock, init, redo, copy, tmp] = places.map(inside) as [
      string,
      string,
      string,
      string,
      string,
      string,
      string,
    ]
    const name = `${flavour} on port ${port}`
    writeFileSync(log, '')
    writeFileSync(clock, Buffer.alloc(8))
    writeFileSync(init, users)
    mkdirSync(redo)
    mkdirSync(tmp)
    let offset = 0
    let stopped: Promise<void> | undefined

    const start = () =>
      launch({
        name,
        command: server.command,
        args: [
          ...server.args(shims),
          ...server.common,
          ...layout(flavour),
          ...quick,
          ...frugal[flavour],
          ...[
            `--datadir=${data}`,
            `--socket=${inside('s.sock')}`,
            `--pid-file=${inside('pid')}`,
            `--port=${port}`,
            // Not shared: a server that starts deletes the temporary tables of others there, and MariaDB 10.11 crashes when one is gone.
            `--tmpdir=${tmp}`,
          ],
          ...[`--plugin-dir=${server.root}/usr/lib/mysql/plugin`, `--init-file=${init}`],
          ...(options.args ?? []),
        ],
        env: {
          ...{ ...server.env(shims), HOLDFAST_CLOCK: clock },
          ...{ HOLDFAST_REDO: redo, HOLDFAST_REDO_FILES: redoFiles[flavour] },
        },
        folder: folder.path,
        log,
        ready: (logged) => /ready for connections/.test(logged),
        readyWithin: 60_000,
      })

    let running: Running
    try {
      await freshData(flavour, data)
      running = await start()
    } catch (error) {
      await folder.remove()
      throw error
    }
    const end = async () => {
      await running.end('SIGKILL')
      await folder.remove()
    }
    const stop = () => (stopped ??= end())

    const restart = async (renew?: () => unknown) => {
      if (stopped) throw new Error(`${name} was stopped for good and cannot restart`)
      await running.end('SIGKILL')
      if (renew !== undefined) {
        rmSync(data, { recursive: true })
        await renew()
      }
      running = await start()
    }

    return {
      flavour,
      host,
      port,
      url: `mysql://root@${host}:${port}/holdfast`,
      folder: folder.path,
      get pid() {
        if (!running.alive) throw new Error(`${name} is down and has no pid`)
        return running.pid
      },
      get running() {
        return running.alive
      },
      log: () => readFileSync(log, 'utf8'),
      query: (sql) => query(port, sql),
      kill9: () => running.end('SIGKILL'),
      restart: ({ keepData = true } = {}) => restart(keepData ? undefined : () => freshData(flavour, data)),
      copyData: () => {
        if (running.alive) throw new Error(`${name} runs: what is copied would not fit together`)
        rmSync(copy, { recursive: true, force: true })
        cpSync(data, copy, { recursive: true })
      },
      restore: () => restart(() => cpSync(copy, data, { recursive: true })),
      pause: () => running.pause(),
      resume: () => running.resume(),
      clockJump: (ms) => {
        if (!preload.includes('clock'))
          throw new Error(`clockJump() needs the server started with preload: ['clock']`)
        offset += ms
        setOffset(clock, offset)
      },
      powerCut: async () => {
        if (!preload.includes('redo'))
          throw new Error(`powerCut() needs the server started with preload: ['redo']`)
        await running.end('SIGKILL')
        putBackSynced(data, redo)
      },
      stop,
      [Symbol.asyncDispose]: stop,
    }
  })
}

// In place and in one write: the server has this file mapped and reads it at any moment.
function setOffset(path: string, ms: number): void {
  const offset = Buffer.alloc(8)
  offset.writeBigInt64LE(BigInt(Math.round(ms)))
  const file = openSync(path, 'r+')
  writeSync(file, offset, 0, offset.length, 0)
  closeSync(file)
}

async function query(port: number, sql: string): Promise<readonly Row[]> {
  const connection = await createConnection({
    host,
    port,
    user: 'root',
    database: 'holdfast',
    connectTimeout: 10_000,
  })
  try {
    const [rows] = await connection.query(sql)
    return Array.isArray(rows) ? (rows as Row[]) : []
  } finally {
    connection.destroy()
  }
}
