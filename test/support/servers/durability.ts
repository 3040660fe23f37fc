// What a power cut leaves: of append-only files by the records of the `power` shim (test/support/shims/power.c), of the logs of
// databases by the copies of the `redo` shim (redo.c).
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'

/** Bytes written to the append-only files below `data` that were never synced. */
export function unsynced(data: string, records: string): number {
  return appendOnly(data, records).reduce((sum, { size, durable }) => sum + size - durable, 0)
}

/** Cuts each append-only file below `data` back to what was synced. Only for a server that is down. */
export function cutToSynced(data: string, records: string): void {
  for (const { path, size, durable } of appendOnly(data, records)) {
    if (durable < size) truncateSync(path, durable)
  }
}

/** Puts the synced copy of each log below `data` in its place. Only for a server that is down. @returns how many there were */
export function putBackSynced(data: string, records: string): number {
  let count = 0
  for (const name of readdirSync(data, { recursive: true, encoding: 'utf8' })) {
    const path = join(data, name)
    const { ino, birthtimeNs } = statSync(path, { bigint: true })
    const copy = join(records, `${ino}-${birthtimeNs}.synced`)
    if (!existsSync(copy)) continue
    // Into the same file: who owns it stays.
    copyFileSync(copy, path)
    count++
  }
  for (const name of readdirSync(records)) rmSync(join(records, name))
  return count
}

function appendOnly(data: string, records: string): { path: string; size: number; durable: number }[] {
  const names = readdirSync(data, { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => name.endsWith('.aof'))
    .map((name) => {
      const path = join(data, name)
      const { size, ino, birthtimeNs } = statSync(path, { bigint: true })
      return { path, size: Number(size), durable: recorded(join(records, `${ino}-${birthtimeNs}`)) }
    })
}

// A file without a record was never synced: all of it would be lost.
function recorded(path: string): number {
  try {
    return Number(readFileSync(path).readBigInt64LE())
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
