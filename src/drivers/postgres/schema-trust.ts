/**
 * Checks who owns the tables and functions. They run with the rights of the role that uses them, so the driver does not use those that a
 * stranger made in a schema where everybody may create objects. It checks once per process or connection, before anything else, and again
 * after creating them.
 */
import { BackendError } from '../../core/errors.js'

/**
 * Parameter: schema. Answer: [[what, name, role], ...], the objects that must not be used. Their owner is not a superuser, not the asking
 * role or a role it is a member of, and not the owner of the database or the schema. A trigger belongs to the owner of its function.
 */
export const foreignOwnersQuery = `with n as (
  select s.oid, s.nspowner from pg_catalog.pg_namespace s where s.nspname::pg_catalog.text = $1::pg_catalog.text
), ours_tables as (
  select c.oid as id, 'table' as what, c.relname::pg_catalog.text as name, c.relowner as owner from pg_catalog.pg_class c, n
    where c.relnamespace = n.oid and c.relkind <> 'i' and pg_catalog.starts_with(c.relname::pg_catalog.text, 'holdfast_'::pg_catalog.text)
), ours as (
  select * from ours_tables
  union all
  select p.oid, 'function', p.proname::pg_catalog.text, p.proowner from pg_catalog.pg_proc p, n
    where p.pronamespace = n.oid and pg_catalog.starts_with(p.proname::pg_catalog.text, 'holdfast_'::pg_catalog.text)
  union all
  select g.oid, 'trigger', g.tgname::pg_catalog.text, p.proowner from ours_tables t join pg_catalog.pg_trigger g on g.tgrelid = t.id
    join pg_catalog.pg_proc p on p.oid = g.tgfoid where not g.tgisinternal
), found as (
  select o.what, o.name, r.rolname::pg_catalog.text as role from ours o join pg_catalog.pg_roles r on r.oid = o.owner
    where not r.rolsuper and r.rolname <> current_user
      and not exists (select from n where n.nspowner = o.owner)
      and not exists (select from pg_catalog.pg_database d where d.datname = pg_catalog.current_database() and d.datdba = o.owner)
      and not exists (select from pg_catalog.pg_roles m where m.rolname = current_user and not m.rolsuper
        and pg_catalog.pg_has_role(m.oid, o.owner, 'member'::pg_catalog.text))
)
select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(f.what, f.name, f.role)), '[]')::pg_catalog.text as answer from found f`

/** @throws BackendError with the remedy when something in `schema` cannot be trusted */
export function assertTrusted(schema: string, answer: unknown): void {
  const [first] = answer as readonly (readonly [what: string, name: string, role: string])[]
  if (first === undefined) return
  const [what, name, role] = first
  const message = `the ${what} ${schema}.${name} belongs to the role ${role}, which could make it do anything with the rights of this process; drop it, or give it to the owner of the schema`
  throw new BackendError(
    'postgres',
    `${message}. Better: a schema of its own, in which nobody else may create anything: postgres({ pool, schema: 'holdfast' })`,
  )
}
