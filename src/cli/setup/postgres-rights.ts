/** The driver's tables, and whether this role may use or create them. */
import type { PostgresOptions } from 'holdfast/postgres'
import { bad, type Check, ok } from './check.js'

interface Client {
  query(text: string, values: unknown[]): Promise<{ readonly rows: readonly Record<string, unknown>[] }>
}

const tables = ['locks', 'waiters', 'holds', 'ghosts', 'cells', 'watchers'].map((name) => `holdfast_${name}`)

const rights = `select t.name, to_regclass(format('%I.%I', $1::text, t.name)) is not null as there,
  coalesce((select bool_and(has_table_privilege(to_regclass(format('%I.%I', $1::text, t.name)), p))
    from unnest(array['select', 'insert', 'update', 'delete']) p), false) as able
  from unnest($2::text[]) t(name)`

/** Functions may be called by everybody, unless that was taken away. */
const calling = `select p.proname as name from pg_proc p
  where p.pronamespace = to_regnamespace(quote_ident($1::text)) and p.proname like 'holdfast\\_%'
    and not has_function_privilege(p.oid, 'execute') order by 1`

const using = `select coalesce(has_schema_privilege(to_regnamespace(quote_ident($1::text)), 'usage'), true) as able`

const making = `select coalesce(has_schema_privilege(to_regnamespace(quote_ident($1::text)), 'create'),
  has_database_privilege(current_database(), 'create')) as able`

export async function rightsCheck(
  client: Client,
  { schema = 'public', create = true }: Pick<PostgresOptions, 'schema' | 'create'>,
): Promise<Check> {
  const [use] = (await client.query(using, [schema])).rows
  if (use?.['able'] !== true) return refused(`this role may not use the schema ${schema}`)
  const barred = (await client.query(calling, [schema])).rows.map(({ name }) => String(name))
  if (barred.length > 0) return refused(`this role may not execute ${barred.join(', ')}`)
  const able = (await client.query(rights, [schema, tables])).rows as unknown as Table[]
  const [make] = (await client.query(making, [schema])).rows
  return schemaCheck(able, create && make?.['able'] === true)
}

interface Table {
  readonly name: string
  readonly there: boolean
  readonly able: boolean
}

const what = 'tables and rights'
const fails = 'no lock can be taken'

const refused = (found: string) => bad(what, found, fails, 'run what `holdfast schema --role NAME` prints')

function schemaCheck(rows: readonly Table[], mayMake: boolean): Check {
  const absent = rows.filter(({ there }) => !there).map(({ name }) => name)
  const barred = rows.filter(({ there, able }) => there && !able).map(({ name }) => name)
  if (barred.length > 0) return refused(`this role may not read and write ${barred.join(', ')}`)
  if (absent.length === 0) return ok(what, `${rows.length} tables, and the rights to use them`)
  if (mayMake) {
    const missing = absent.length === rows.length ? 'no tables yet' : `no ${absent.join(', no ')} yet`
    return ok(what, `${missing}; this role may make them, at the first use`)
  }
  return bad(what, `there is no ${absent.join(', no ')}`, fails, 'run what `holdfast schema` prints')
}
