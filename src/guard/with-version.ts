/** Optimistic locking: no lock at all, but a write that fails when somebody else wrote since the row was read, and is then retried. */
import { setTimeout as pause } from 'node:timers/promises'
import { VersionConflictError } from '../core/errors.js'
import { checkAttempts } from './commit.js'
import { isSqlAnswer, reportUnknown } from './outcome.js'
import { selectStatement, type Target, type Values, versionStatement } from './sql.js'
import type { Sql, SqlRow } from './sql-client.js'

export interface Versioned extends Omit<Target, 'column'> {
  /** An integer, never NULL. @default 'version' */
  readonly column?: string
  /** How often to read and try before giving up. @default 5 */
  readonly attempts?: number
  /** Ends the pause between two attempts. */
  readonly signal?: AbortSignal
}

/** Longest pause before the second attempt, in ms; twice as long before each further one. */
const firstPause = 10

/**
 * Reads the row, asks `change` what to set, and writes it with the version one higher, unless somebody else was
 * faster; then it starts again with the read, after a short random pause. Resolves with the row as it was read and
 * what was set, or `undefined` when there is no such row or `change` returned `undefined`.
 *
 * `change` may run several times. Pass a pool or connection, not a transaction that keeps reading the same snapshot.
 * With many writers of one row a lock does less work: every failed attempt was work for nothing.
 * @throws VersionConflictError after the last attempt; BackendError with `outcome: 'unknown'` when the reply to the write was lost; what
 * `change` and the database throw
 */
export async function withVersion(
  db: Sql,
  { column = 'version', attempts = 5, signal, ...target }: Versioned,
  change: (row: SqlRow) => Values | undefined | Promise<Values | undefined>,
): Promise<SqlRow | undefined> {
  checkAttempts(attempts)
  const where = { ...target, column }
  const read = selectStatement(db.dialect, where)
  for (let attempt = 1; attempt <= attempts; attempt++) {
    signal?.throwIfAborted()
    const [row] = (await db.run(read.text, read.values)).rows
    if (row === undefined) return undefined
    const version = row[column]
    if (version === undefined || version === null)
      throw new TypeError(
        `${target.table}.${column} is ${String(version)}; withVersion needs an integer there`,
      )
    const set = await change(row)
    if (set === undefined) return undefined
    const write = versionStatement(db.dialect, where, set, version)
    const { changed } = await reportUnknown(db.dialect, `the write to ${target.table}`, isSqlAnswer, () =>
      db.run(write.text, write.values),
    )
    if (changed > 0) return { ...row, ...set, [column]: Number(version) + 1 }
    if (attempt < attempts)
      await pause(Math.random() * firstPause * 2 ** (attempt - 1), undefined, signal && { signal })
  }
  throw new VersionConflictError(target.table, attempts)
}
