/** The driver's tables, and whether this user may use or create them. */
import type { MysqlOptions } from 'holdfast/mysql'
import { bad, type Check, ok, unchecked } from './check.js'

interface Connection {
  query(statement: string | { sql: string; rowsAsArray: boolean }): Promise<unknown>
}

/** Each with one of its columns. */
const tables = { locks: 'name', waiters: 'attempt', cells: 'name', transactions: 'name' }

export async function rightsCheck(
  connection: Connection,
  database: string,
  { prefix = 'holdfast_', create = true }: Pick<MysqlOptions, 'prefix' | 'create'>,
): Promise<Check> {
  const what = 'tables and rights'
  const refused = await refusals(connection, prefix)
  const absent = refused.filter(({ errno }) => errno === noSuchTable)
  const [first] = refused.filter(({ errno }) => errno !== noSuchTable)
  if (refused.length === 0) return ok(what, '4 tables, and the rights to use them')
  const remedy = 'run what `holdfast schema` prints (with --role USER for its rights)'
  if (first === undefined && create) {
    const found = absent.length === verbs ? 'no tables yet' : 'some tables are missing'
    if (await mayCreate(connection, database))
      return ok(what, `${found}; this user may make them, at the first use`)
    const roles = await activeRoles(connection)
    if (roles !== undefined)
      return unchecked(
        what,
        `${found}; whether this user may make them by its role ${roles} cannot be seen`,
        remedy,
      )
  }
  return bad(what, (first ?? absent[0])?.message ?? '', 'no lock can be taken', remedy)
}

const noSuchTable = 1146
/** The number of explained statements. */
const verbs = 4 * Object.keys(tables).length

interface Refusal {
  readonly errno?: number
  readonly message: string
}

/** EXPLAIN requires the right to run the statement. */
async function refusals(connection: Connection, prefix: string): Promise<Refusal[]> {
  const refused: Refusal[] = []
  for (const [name, column] of Object.entries(tables)) {
    const table = `\`${prefix}${name}\``
    const none = `where ${column} = ''`
    const statements = [
      `select * from ${table} ${none}`,
      `insert into ${table} (${column}) values ('')`,
      `update ${table} set ${column} = '' ${none}`,
      `delete from ${table} ${none}`,
    ]
    for (const statement of statements) {
      await connection.query(`explain ${statement}`).catch((error: Refusal) => refused.push(error))
    }
  }
  return refused
}

/** Undefined: none. */
async function activeRoles(connection: Connection): Promise<string | undefined> {
  const answer = connection.query({ sql: 'select current_role()', rowsAsArray: true })
  const [rows] = (await answer.catch(() => [[]])) as [unknown[][]]
  const roles = rows[0]?.[0]
  return typeof roles === 'string' && roles !== 'NONE' ? roles : undefined
}

/** Considers only the user's own rights; those granted through roles do not appear there. */
async function mayCreate(connection: Connection, database: string): Promise<boolean> {
  // The view stores the database name as a LIKE pattern.
  const sql = `select count(*) from (
      select privilege_type, '%' as place from information_schema.user_privileges
      union all select privilege_type, table_schema from information_schema.schema_privileges) granted
    where privilege_type = 'CREATE' and database() like place`
  const [rows] = (await connection.query({ sql, rowsAsArray: true })) as [unknown[][]]
  return database !== '' && Number(rows[0]?.[0]) > 0
}
