/**
 * The schema: six tables and the functions that decide, as one text for a migration and as the calls the driver makes.
 *
 * Why functions: a verb must first lock the lock's row and *then* read the queue, or it overlooks a waiter that arrived meanwhile
 * (lab/models/sql.pml, ONE_SNAPSHOT). Inside a function, each statement sees what was committed before it. So a verb is one statement for
 * the client: one round trip and one commit. The `_v1` in the names is the version: another version exists beside it while processes of
 * both versions run.
 *
 * Long because the migration and the calls are made from the same texts.
 */
import { describe } from '../../core/name.js'
import { cellFunctions } from './sql/cells.js'
import { operatorFunctions } from './sql/operators.js'
import { queueFunctions } from './sql/queue.js'
import { sessionFunctions } from './sql/session.js'
import { tables } from './sql/tables.js'
import { transactionFunctions } from './sql/transaction.js'
import { verbs } from './sql/verbs.js'

/** A statement with its parameters. Each returns one column `answer`, which is JSON. */
export interface Call {
  readonly text: string
  /** The same, with the server's life (its start time) and a space before the answer; two lives never give the same text. */
  readonly textWithLife: string
  /** True if it can notify; its last parameter is then 1 when it must not. */
  readonly notifies: boolean
  /** True if it is retried while somebody else has the row locked; renewals have their own retry. */
  readonly insists: boolean
}

/** The calls of one schema. The comment above each SQL function describes its parameters and results. */
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

const verbsOfCalls: readonly (keyof Calls)[] = [
  ...(['acquire', 'together', 'release', 'renew', 'cancel', 'downgrade', 'force'] as const),
  ...(['inspect', 'list', 'reap', 'sessionAcquire', 'sessionRelease', 'sessionDowngrade'] as const),
  ...(['sessionTidy', 'sessionBeat', 'sessionInspect', 'sessionList', 'mint', 'transaction'] as const),
  ...(['cellRead', 'cellWrite', 'cellWatch', 'cellReap'] as const),
]

const quietVerbs = [
  ...['inspect', 'list', 'reap', 'sessionTidy', 'sessionBeat', 'sessionInspect', 'sessionList', 'mint'],
  ...['transaction', 'cellRead', 'cellWatch', 'cellReap'],
]

/** `sessionAcquire` becomes `holdfast_session_acquire_v1`. */
const functionName = (verb: string) =>
  `holdfast_${verb.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}_v1`

const functions: readonly string[] = [
  queueFunctions,
  verbs,
  operatorFunctions,
  sessionFunctions,
  transactionFunctions,
  cellFunctions,
]

const functionsText = functions.join('\n')

/** PostgreSQL's own, whatever types `search_path` leads to. */
const ownTypes: Readonly<Record<string, string>> = {
  text: 'pg_catalog.text',
  bigint: 'pg_catalog.int8',
  int: 'pg_catalog.int4',
}

/** The parameter types of a function. */
function parameterTypes(name: string): readonly string[] {
  const [, list = ''] = new RegExp(`function S\\.${name}\\(([^)]*)\\)`).exec(functionsText) ?? []
  return list === ''
    ? []
    : list.split(',').map((parameter) => ownTypes[parameter.trim().split(' ')[1] ?? ''] ?? '')
}

/** Each call names its parameter types, so that no function of the same name made by another user is a better match. */
const calls: readonly (readonly [keyof Calls, string, string])[] = verbsOfCalls.map((verb) => {
  const name = functionName(verb)
  return [
    verb,
    name,
    parameterTypes(name)
      .map((type, i) => `$${i + 1}::${type}`)
      .join(', '),
  ]
})

/** Start time of the server, in seconds. */
const life = 'extract(epoch from pg_catalog.pg_postmaster_start_time())'

/**
 * The limit that the function itself sets comes too late on a new connection: the server compiles the function first, and if somebody has
 * locked a whole table, it waits there. Not inside the user's own transaction, where the setting would last until its end.
 */
const limited = (called: string) =>
  `case when pg_catalog.set_config('lock_timeout', '100', true) is not null then ${called} end`

export function createCalls(schema: string): Calls {
  const entries = calls.map(([verb, name, list]) => {
    const bare = `${quoted(schema)}.${name}(${list})`
    const called = verb === 'transaction' ? bare : limited(bare)
    const text = `select ${called} as answer`
    const textWithLife = `select pg_catalog.concat(${life}, ' ', ${called}) as answer`
    return [verb, { text, textWithLife, notifies: !quietVerbs.includes(verb), insists: verb !== 'renew' }]
  })
  return Object.fromEntries(entries) as unknown as Calls
}

/** Sets `search_path` on functions called from outside: they find only PostgreSQL's own objects, whatever the caller's path leads to. */
function withPath(text: string): string {
  const called = new Set(calls.map(([, name]) => name))
  return text.replace(
    /(create or replace function S\.(holdfast_\w+)\([^)]*\)\s+returns \w+\s+language \w+)/g,
    (head, _, name: string) => (called.has(name) ? `${head} set search_path = pg_catalog, pg_temp` : head),
  )
}

/**
 * Everything the driver needs in a database. Run it once as a role that may create tables; running it again changes nothing.
 * It is one transaction; several processes may run it at once.
 * @param options `schema`: where the tables and functions go, default `public`; created if missing.
 *   `role`: the role that is granted the least the driver needs.
 * @throws TypeError for an invalid schema or role name
 */
export function migration(options: { readonly schema?: string; readonly role?: string } = {}): string {
  const schema = checkedIdentifier('schema', options.schema ?? 'public')
  const parts = [...createStatements(schema)]
  if (options.role !== undefined) parts.push(grantsFor(schema, checkedIdentifier('role', options.role)))
  return `begin;\n\n${parts.join('\n\n')}\n\ncommit;\n`
}

/** The same for the driver itself, as one simple query, which is implicitly one transaction. It finds PostgreSQL's own types only. */
export function creation(schema: string): string {
  const path = `select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);`
  return [path, ...createStatements(schema)].join('\n')
}

function createStatements(schema: string): readonly string[] {
  const name = quoted(schema)
  const made =
    schema === 'public'
      ? []
      : [
          `do $$ begin\n  if to_regnamespace(${literal(name)}) is null then create schema ${name}; end if;\nend $$;`,
        ]
  // Two processes that create the same table at once make each other fail in the catalogue: they take turns.
  const turn = `do $$ begin
  perform set_config('client_min_messages', 'warning', true);
  perform pg_advisory_xact_lock(7308604759846285924);
end $$;`
  return [turn, ...made, tables, ...functions].map((text) =>
    withPath(text).trim().replaceAll('S.', `${name}.`),
  )
}

const functionNames = functions.flatMap((text) =>
  [...text.matchAll(/create or replace function S\.(holdfast_\w+)/g)].map(([, name = '']) => name),
)

const tableNames = [
  'holdfast_locks',
  'holdfast_holds',
  'holdfast_waiters',
  'holdfast_cells',
  'holdfast_watchers',
  'holdfast_ghosts',
]

function grantsFor(schema: string, role: string): string {
  const [name, to] = [quoted(schema), quoted(role)]
  const all = (names: readonly string[]) => names.map((one) => `${name}.${one}`).join(', ')
  return [
    `grant usage on schema ${name} to ${to};`,
    `grant select, insert, update, delete on ${all(tableNames)} to ${to};`,
    // Everybody may execute functions, unless ALTER DEFAULT PRIVILEGES has taken that away.
    `grant execute on function ${all(functionNames)} to ${to};`,
  ].join('\n')
}

/** @throws TypeError with the value received */
export function checkedIdentifier(what: string, value: unknown): string {
  // Stricter than PostgreSQL: the name goes into the text of functions.
  if (typeof value !== 'string' || !/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/.test(value)) {
    throw new TypeError(
      `postgres: ${what} must be a name of letters, digits, _ and -, at most 63, got ${describe(value)}`,
    )
  }
  return value
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
