// PostgreSQL's data: fresh ones, base backups by its low-level functions, which need no program that the server does not come with, and standbys.
import { appendFileSync, copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from 'pg'
import { copyFolder, template } from './templates.js'
import { handOver, handOverAll, makeOwnFolder, runOwn } from './unprivileged.js'

const how = ['-U', 'postgres', '-A', 'trust', '--no-sync', '--no-locale', '-E', 'UTF8']

/**
 * Copies a fresh data directory to `to`, which must not exist.
 * @param bin the folder of the server's programs, where the user that it runs as can read them
 */
export async function freshData(
  bin: string,
  env: Readonly<Record<string, string>>,
  to: string,
): Promise<void> {
  const made = await template('postgres', 'postgres15', how, async (path) => {
    const folder = makeOwnFolder('initdb')
    try {
      const data = join(folder.path, 'data')
      await runOwn(join(bin, 'initdb'), ['-D', data, ...how], { cwd: folder.path, env })
      await copyFolder(data, path)
    } finally {
      await folder.remove()
    }
  })
  await copyFolder(made, to)
  await handOverAll(to)
}

/** Of the running server behind `client`, whose data are in `data`. Its log comes last, when the backup is complete. */
export async function baseBackup(client: Client, data: string, to: string): Promise<void> {
  await client.query(`set client_min_messages = error`)
  await client.query(`select pg_backup_start('copy', true)`)
  cloneData(data, to, ['pg_wal', 'postmaster.pid', 'postmaster.opts', 'pg_replslot'])
  const { rows } = await client.query('select labelfile from pg_backup_stop(false)')
  cloneData(join(data, 'pg_wal'), join(to, 'pg_wal'))
  for (const name of ['pg_replslot']) own(join(to, name))
  const label = join(to, 'backup_label')
  writeFileSync(label, rows[0].labelfile)
  handOver(label)
}

/** Before its first start: it is to follow the primary on that port. */
export function makeStandby(data: string, port: number): void {
  const signal = join(data, 'standby.signal')
  writeFileSync(signal, '')
  handOver(signal)
  appendFileSync(
    join(data, 'postgresql.auto.conf'),
    `primary_conninfo = 'host=127.0.0.1 port=${port} user=postgres'\n`,
  )
}

/** For the user that the server runs as. What goes while it is copied was of no use. */
export function cloneData(from: string, to: string, without: readonly string[] = []): void {
  own(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)]
    if (without.includes(entry.name)) continue
    if (entry.isDirectory()) cloneData(source, copy)
    else clone(source, copy)
  }
}

function clone(source: string, copy: string): void {
  try {
    copyFileSync(source, copy)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  handOver(copy)
}

function own(folder: string): void {
  mkdirSync(folder, { mode: 0o700 })
  handOver(folder)
}
