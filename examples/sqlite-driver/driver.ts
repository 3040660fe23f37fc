/**
 * A complete driver for one more store, as a pattern for your own: locks between the processes of one machine, kept in a
 * SQLite file. It passes the conformance suite: test/examples-sqlite.test.ts.
 *
 * The rules of queue and holds are not written here. `table` of `holdfast/driver` has them as pure functions: a row of
 * plain data and a command give the next row and an answer. The driver is a transaction around that:
 *
 * ```
 *   begin ── read the row of the name ── table.acquire | renew | release | … ── write the row ── commit
 * ```
 * Do not put the file on a network file system, nor share it between containers: a waiter whose process id is not found
 * on this machine counts as dead and loses its turn. Holders are never judged that way; a dead one keeps its ttl.
 */
import type { Claim, Driver, DriverFactory, Env, Grant, Traits, Wait } from 'holdfast/driver'
import { BackendError, deadline, permitLimitError, table } from 'holdfast/driver'
import { type Command, monotonic, type SqliteDatabase, SqliteFile } from './file.js'

export interface SqliteOptions {
  /** A connection that nothing else uses: the driver begins and ends transactions on it. */
  readonly database: SqliteDatabase
  /** How often a process with waiters looks for changes, in ms. @default 10 */
  readonly pollEvery?: number
}

export interface SqliteTraits extends Traits {
  readonly modes: readonly ('exclusive' | 'shared' | 'permits')[]
  readonly fair: true
  readonly portable: true
}

const traits: SqliteTraits = {
  modes: ['exclusive', 'shared', 'permits'],
  fair: true,
  minTtl: 50,
  shared: true,
  maxLockDelay: Number.POSITIVE_INFINITY,
  portable: true,
}

/**
 * Locks in a SQLite file.
 *
 * ```ts
 * const locks = createLocks(sqlite({ database: new DatabaseSync('/var/lib/app/locks.db') }))
 * ```
 * @throws RangeError for an impossible `pollEvery`. Every verb rejects with BackendError while the file cannot be used;
 * a file that stays locked for five seconds counts as that.
 */
export function sqlite({ database, pollEvery = 10 }: SqliteOptions): DriverFactory<SqliteTraits> {
  if (!(pollEvery >= 1)) throw new RangeError(`pollEvery must be at least 1 ms, got ${pollEvery}`)
  return (env) => sqliteDriver(new SqliteFile(database, pollEvery), env)
}

function sqliteDriver(file: SqliteFile, env: Env): Driver<SqliteTraits> {
  /** Cancellations that the file has not taken yet. */
  const owed = new Set<Promise<void>>()
  /** `env.client` is `host:pid`. */
  const host = env.client.replace(/\d+$/, '')
  let closed = false

  async function acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    if (closed) throw new BackendError('sqlite', 'this driver was closed', { closed: true })
    let grant: Grant | undefined
    try {
      grant = await tryUntilOver(claim, wait)
      return grant
    } finally {
      if (grant === undefined) await cancel(claim)
    }
  }

  async function tryUntilOver(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const { name, attempt, mode, ttl, note } = claim
    const ask = { attempt, mode, ttl, wait: wait.remaining() > 0, note, client: env.client }
    const take = cleaned((row, now, wall) => table.acquire(row, ask, now, wall))
    while (!wait.ended && !closed) {
      const sent = env.clock.now()
      const answer = await file.run(name, take, wait.signal).catch(troubled)
      if (answer === undefined) continue
      if (answer.is === 'limit')
        throw permitLimitError(name, answer.limit, mode.kind === 'permits' ? mode.of : 0)
      if (answer.is === 'granted' && !wait.ended) return grantOf(claim, answer.hold, deadline(sent, ttl))
      if (answer.is !== 'waiting' && answer.is !== 'busy') return undefined
      const row = file.row(name)
      const [holder] = table.toLockStatus(row, monotonic()).holders
      const position = answer.is === 'waiting' ? answer.position : undefined
      wait.report?.({ ...(holder && { holder }), ...(position && { position }) })
      if (answer.is === 'busy') return undefined
      await turnOf(attempt, row, wait.signal)
    }
    return undefined

    function troubled(error: BackendError): undefined {
      if (!ask.wait || !error.unanswered) throw error
      wait.report?.({ error: error })
    }
  }

  /** Resolves when the attempt no longer waits, when the first hold expires, or when the wait is over. */
  function turnOf(attempt: string, row: table.Row, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        stop()
        unwatch()
        signal.removeEventListener('abort', done)
        resolve()
      }
      const look = () => {
        if (closed || !file.isWaiting(row.name, attempt)) done()
      }
      const stop = env.clock.at(env.clock.now() + Math.max(1, table.nextExpiry(row) - monotonic()), done)
      const unwatch = file.watch(row.name, look)
      signal.addEventListener('abort', done)
      if (signal.aborted) done()
    })
  }

  /** Ends an attempt. If the file stays locked, that is repeated in the background. */
  async function cancel(claim: Claim): Promise<void> {
    const command: Command<boolean> = (row, now, wall) => table.cancel(row, claim.attempt, now, wall)
    const once = () => file.run(claim.name, command)
    const again = async (error: BackendError): Promise<void> => {
      if (error.unanswered && !closed) await once().then(() => undefined, again)
    }
    await once().catch((error) => {
      const late = again(error).finally(() => owed.delete(late))
      owed.add(late)
    })
  }

  function grantOf(claim: Claim, hold: table.Hold, validUntil: number): Grant {
    const { name, attempt } = claim
    let last = hold.token
    let upTo = hold.upTo
    const grant = {
      token: hold.token,
      validUntil,
      async renew(ttl: number) {
        const sent = env.clock.now()
        const held = await file.run(name, (row, now, wall) => table.renew(row, attempt, ttl, now, wall))
        grant.validUntil = held === undefined ? Number.NEGATIVE_INFINITY : deadline(sent, ttl)
        return held === undefined ? undefined : grant.validUntil
      },
      release: () =>
        file.run(
          name,
          cleaned((row, now, wall) => table.release(row, attempt, last, now, wall)),
        ),
      ...(claim.mode.kind === 'exclusive' &&
        ({
          nextReservedToken: () => (last < upTo ? ++last : undefined),
          async downgrade() {
            upTo = last
            await file.run(name, (row, now, wall) => table.downgrade(row, attempt, last, now, wall))
          },
        } satisfies Partial<Grant>)),
    }
    return grant
  }

  /** The command on a row without waiters whose process has ended: they would be granted a lock that nobody releases. */
  function cleaned<A>(command: Command<A>): Command<A> {
    return (before, now, wall) => {
      let row = before
      for (const { attempt, client } of before.queue)
        if (isDead(client)) row = table.cancel(row, attempt, now, wall, true).row
      return command(row, now, wall)
    }
  }

  function isDead(by = ''): boolean {
    if (!by.startsWith(host)) return false
    try {
      return !process.kill(Number(by.slice(host.length)), 0)
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ESRCH'
    }
  }

  async function inspect(name: string) {
    await file.run(name, table.expire)
    return table.toLockStatus(file.row(name), monotonic())
  }

  return {
    name: 'sqlite',
    traits,
    acquire,
    inspect,
    async list(prefix) {
      const all = await Promise.all(file.names(prefix).map(inspect))
      return all.filter(({ holders, waiters }) => holders.length + waiters.length > 0)
    },
    forceRelease: async (name) => (await file.run(name, table.forceRelease)).length,
    async close() {
      closed = true
      await Promise.all(owed)
    },
  }
}
