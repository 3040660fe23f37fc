/** The strategy `transaction`: a lock that is part of the user's own transaction and ends with it. */
import { AcquireTimeoutError, UnsupportedError } from '../../core/errors.js'
import { checkName, describe } from '../../core/name.js'
import type { Value } from './client.js'
import { toFailure } from './failure.js'
import { parseAnswer, toHolder } from './inspect.js'
import { checkedNamespace } from './options.js'
import { toParameters } from './parameters.js'
import { raw, toAnswer } from './postgres-js.js'
import { assertTrusted, foreignOwnersQuery } from './schema-trust.js'
import { defaultNamespace, lockKey, rowName } from './session/key.js'
import { checkedIdentifier, createCalls } from './sql.js'

/** A pg `Client` or `PoolClient` on which `begin` was sent. */
export interface PgTransaction {
  query(text: string, values?: never[]): Promise<unknown>
}

/** The `tx` of `sql.begin(async (tx) => …)` in postgres.js. */
export interface PostgresJsTransaction {
  unsafe(text: string, values?: never[]): PromiseLike<unknown>
  savepoint: unknown
}

export interface TransactionOptions {
  /** How long to wait, in ms. Default 30_000. The connection can do nothing else meanwhile, and no signal ends the wait sooner. */
  readonly wait?: number
  /** Default `exclusive`. */
  readonly mode?: 'exclusive' | 'shared'
  /** As in `postgres({ strategy: 'session' })`: with the same namespace, both use the same locks. Default `holdfast`. */
  readonly namespace?: string
  /** Schema of the tables and functions. Default `public`. They must exist: see `migration()`. */
  readonly schema?: string
}

/** A lock held until the transaction commits or rolls back. There is nothing to release, renew or lose: both end with the connection. */
export interface TransactionLock {
  readonly name: string
  /** The fencing token, greater than that of every earlier committed exclusive grant of this name. Two readers may have the same token. */
  readonly token: number
}

/**
 * Acquires `name` for the rest of the transaction open on `client`. Commit and rollback release the lock after the transaction's writes
 * have become visible, so nobody can read between the two.
 *
 * Acquire the lock first and read afterwards. Waiting and holding occupy the connection: keep the section short.
 * @throws AcquireTimeoutError when the lock was not free within `wait`; the transaction can go on · TypeError when no transaction is
 *   open or `client` is a pool · UnsupportedError at REPEATABLE READ and SERIALIZABLE, where reads are older than the lock ·
 *   BackendError when the database refuses · RangeError when `wait` is not from 1 to 2147483647 ms
 */
export async function inTransaction(
  client: PgTransaction | PostgresJsTransaction,
  name: string,
  options: TransactionOptions = {},
): Promise<TransactionLock> {
  const { wait = 30_000 } = options
  if (typeof wait !== 'number' || !(wait >= 1 && wait <= 2 ** 31 - 1)) {
    throw new RangeError(
      `wait must be from 1 to 2147483647 ms, got ${describe(wait)}; to try once, call tryInTransaction()`,
    )
  }
  const [is, value] = await ask(client, name, options, Math.ceil(wait))
  if (is === 'granted') return { name, token: Number(value) }
  throw new AcquireTimeoutError(name, wait, Array.isArray(value) ? { holder: toHolder(value) } : undefined)
}

/** Like `inTransaction`, without waiting: resolves with `undefined` when the lock is not free. */
export async function tryInTransaction(
  client: PgTransaction | PostgresJsTransaction,
  name: string,
  options: Omit<TransactionOptions, 'wait'> = {},
): Promise<TransactionLock | undefined> {
  const [is, value] = await ask(client, name, options, 0)
  return is === 'granted' ? { name, token: Number(value) } : undefined
}

async function ask(
  client: PgTransaction | PostgresJsTransaction,
  name: string,
  { mode = 'exclusive', namespace = defaultNamespace, schema = 'public' }: TransactionOptions,
  wait: number,
): Promise<readonly unknown[]> {
  checkName(name)
  if (mode !== 'exclusive' && mode !== 'shared') {
    throw new RangeError(`mode must be 'exclusive' or 'shared', got ${describe(mode)}`)
  }
  const { text } = createCalls(checkedIdentifier('schema', schema)).transaction
  const call = text.replace('$1', `pg_catalog.convert_from(pg_catalog.decode($1, 'hex'), 'UTF8')`)
  const run = toRunner(client)
  checkedNamespace(namespace)
  // Both clients send UTF-8; where client_encoding is another, the name would be that of another row. So its bytes are written in ASCII.
  const row = Buffer.from(rowName(namespace, name)).toString('hex')
  const values = [row, lockKey(namespace, name), mode === 'shared' ? 's' : 'x', wait]
  try {
    await run.check()
    if (!trusted.has(client)) {
      assertTrusted(schema, JSON.parse(await run.query(foreignOwnersQuery, [schema])))
      trusted.add(client)
    }
    const answer = JSON.parse(await run.query(call, values)) as readonly unknown[]
    if (answer[0] !== 'isolation') return answer
  } catch (error) {
    if (error instanceof TypeError) throw error
    throw toFailure(error).error
  }
  throw new UnsupportedError(
    'postgres',
    'inTransaction at REPEATABLE READ or SERIALIZABLE: what the transaction reads is as old as its start, so it does not see what the holder before it wrote',
    'begin the transaction with `begin isolation level read committed`',
  )
}

/** Connections on which the owners of the tables and functions have been checked. */
const trusted = new WeakSet<object>()

interface Runner {
  /** Checks that a transaction is open. */
  check(): Promise<void>
  query(text: string, values: readonly Value[]): Promise<string>
}

function toRunner(client: PgTransaction | PostgresJsTransaction): Runner {
  if (typeof client === 'function' && 'unsafe' in client) {
    if (!('savepoint' in client))
      throw notOpen('pass what sql.begin() gives: sql.begin((tx) => inTransaction(tx, name))')
    const { unsafe } = client as PostgresJsTransaction
    return {
      check: async () => undefined,
      query: async (text, values) => toAnswer(await raw(unsafe(text, toParameters(client, values)))),
    }
  }
  if (
    typeof client !== 'object' ||
    client === null ||
    typeof (client as PgTransaction).query !== 'function'
  ) {
    throw new TypeError(
      `client must be a connection of pg or a transaction of postgres.js, got ${describe(client)}`,
    )
  }
  if ('totalCount' in client)
    throw notOpen('a pool runs each statement on any connection: take one with pool.connect()')
  const pg = client as PgTransaction
  return {
    check: () => checkPg(pg),
    query: async (text, values) =>
      parseAnswer(((await pg.query(text, [...values] as never[])) as { rows: unknown }).rows),
  }
}

/** Outside a transaction, the server refuses a savepoint and nothing has happened. */
async function checkPg(client: PgTransaction): Promise<void> {
  try {
    await client.query('savepoint holdfast')
    await client.query('release savepoint holdfast')
  } catch (error) {
    if ((error as { code?: unknown }).code !== '25P01') throw error
    throw notOpen("send 'begin' on this client first")
  }
}

function notOpen(remedy: string): TypeError {
  return new TypeError(
    `inTransaction needs an open transaction, else the lock would be released as soon as it is taken; ${remedy}`,
  )
}
