/**
 * The schema: five tables and the functions that decide, as one text for a migration and as the calls the driver makes.
 *
 * Why functions: a verb must first get the lock of the lock's row and *then* read the line, or a waiter that came meanwhile is
 * overlooked (lab/models/sql.pml, ONE_SNAPSHOT). Inside a function each statement sees what was committed before it, so a
 * verb is one statement for the client, one round trip and one commit. The `_v1` in their names is the version: another one
 * stands beside them while processes of both versions run.
 */
import { describe } from '../../core/name.js'
import { cellFunctions } from './sql/cells.js'
import { lineFunctions } from './sql/line.js'
import { sessionFunctions } from './sql/session.js'
import { tables } from './sql/tables.js'
import { transactionFunctions } from './sql/transaction.js'
import { verbs } from './sql/verbs.js'

/** A statement with its parameters; every one answers one column `answer`, which is JSON. */
export interface Call {
  readonly text: string
  /** Its last parameter is 1 when it must not notify. */
  readonly notifies: boolean
}

/** The calls of one schema. Parameters and results stand above each function. */
export interface Calls {
  readonly acquire: Call
  readonly together: Call
  readonly release: Call
  readonly renew: Call
  readonly cancel: Call
  readonly downgrade: Call
  readonly force: Call
  readonly inspect: Call
  readonly list: Call
  readonly reap: Call
  readonly sessionAcquire: Call
  readonly sessionRelease: Call
  readonly sessionDowngrade: Call
  readonly sessionTidy: Call
  readonly sessionBeat: Call
  readonly sessionInspect: Call
  readonly sessionList: Call
  readonly mint: Call
  readonly transaction: Call
  readonly cellRead: Call
  readonly cellWrite: Call
  readonly cellWatch: Call
  readonly cellReap: Call
}

const parameters: Readonly<Record<keyof Calls, number>> = {
  acquire: 15,
  together: 4,
  release: 4,
  renew: 2,
  cancel: 4,
  downgrade: 4,
  force: 2,
  inspect: 1,
  list: 1,
  reap: 1,
  sessionAcquire: 12,
  sessionRelease: 3,
  sessionDowngrade: 3,
  sessionTidy: 0,
  sessionBeat: 1,
  sessionInspect: 1,
  sessionList: 1,
  mint: 1,
  transaction: 4,
  cellRead: 1,
  cellWrite: 6,
  cellWatch: 4,
  cellReap: 1,
}

const silent = [
  ...['inspect', 'list', 'reap', 'sessionTidy', 'sessionBeat', 'sessionInspect', 'sessionList', 'mint'],
  ...['transaction', 'cellRead', 'cellWatch', 'cellReap'],
]

/** `sessionAcquire` is `holdfast_session_acquire_v1`. */
const functionOf = (verb: string) =>
  `holdfast_${verb.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}_v1`

export function callsOf(schema: string): Calls {
  const entries = Object.entries(parameters).map(([verb, count]) => {
    const list = Array.from({ length: count }, (_, i) => `$${i + 1}`).join(', ')
    const text = `select ${quoted(schema)}.${functionOf(verb)}(${list}) as answer`
    return [verb, { text, notifies: !silent.includes(verb) }]
  })
  return Object.fromEntries(entries) as unknown as Calls
}

/**
 * Everything the driver needs in a database, to be run once by whoever may create tables; running it again changes nothing.
 * One transaction; several processes may run it at once.
 * @param options `schema`: where the tables and functions go, default `public`; it is created when it is missing.
 *   `role`: whom to grant the least the driver needs.
 * @throws TypeError for a name that cannot be one
 */
export function migration(options: { readonly schema?: string; readonly role?: string } = {}): string {
  const schema = checkedIdentifier('schema', options.schema ?? 'public')
  const parts = [...createStatements(schema)]
  if (options.role !== undefined) parts.push(grantsFor(schema, checkedIdentifier('role', options.role)))
  return `begin;\n\n${parts.join('\n\n')}\n\ncommit;\n`
}

/** The same for the driver itself, as one simple query: it is one transaction without saying so. */
export function creation(schema: string): string {
  return createStatements(schema).join('\n')
}

function createStatements(schema: string): readonly string[] {
  const name = quoted(schema)
  const made =
    schema === 'public'
      ? []
      : [
          `do $$ begin\n  if to_regnamespace(${literal(name)}) is null then create schema ${name}; end if;\nend $$;`,
        ]
  // Two processes that create the same table at once fail each other in the catalogue: one after the other.
  const turn = `do $$ begin
  perform set_config('client_min_messages', 'warning', true);
  perform pg_advisory_xact_lock(7308604759846285924);
end $$;`
  return [
    turn,
    ...made,
    tables,
    lineFunctions,
    verbs,
    sessionFunctions,
    transactionFunctions,
    cellFunctions,
  ].map((text) => text.trim().replaceAll('S.', `${name}.`))
}

const tableNames = [
  'holdfast_locks',
  'holdfast_holds',
  'holdfast_waiters',
  'holdfast_cells',
  'holdfast_watchers',
]

function grantsFor(schema: string, role: string): string {
  const [name, to] = [quoted(schema), quoted(role)]
  return [
    `grant usage on schema ${name} to ${to};`,
    `grant select, insert, update, delete on ${tableNames.map((table) => `${name}.${table}`).join(', ')} to ${to};`,
  ].join('\n')
}

/** @throws TypeError with the value got */
export function checkedIdentifier(what: string, value: unknown): string {
  // Stricter than PostgreSQL: it goes into the text of functions.
  if (typeof value !== 'string' || !/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/.test(value)) {
    throw new TypeError(
      `postgres: ${what} must be a name of letters, digits, _ and -, at most 63, got ${describe(value)}`,
    )
  }
  return value
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
