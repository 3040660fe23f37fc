/**
 * Five ways to insert a row only once in MySQL and MariaDB, and what each does when the row exists already, or when two inserts are
 * concurrent. None needs a lock; each loses something else.
 */
import type { Sql } from 'holdfast/guard'

export const tables: readonly string[] = [
  `create table orders (
    id int auto_increment primary key,
    request varchar(10) not null unique,
    item varchar(5) not null,
    note varchar(20) not null default 'no note',
    customer int not null,
    constraint known foreign key (customer) references customers (id))`,
  // The same without a unique key: what INSERT … SELECT … WHERE NOT EXISTS is mostly used for.
  'create table loose (id int auto_increment primary key, request varchar(10) not null, item varchar(5) not null)',
  `create table parcels (
    id int auto_increment primary key,
    order_id int not null,
    constraint of_order foreign key (order_id) references orders (id) on delete cascade)`,
]
export const first: readonly string[] = [
  'create table customers (id int primary key)',
  'insert into customers values (1)',
]

const columns = '(request, item, customer)'

/** The second insert fails with error 1062. The caller has to know that this means "done already". */
export function plain(db: Sql, request: string, item: string, customer = 1): Promise<unknown> {
  return db.run(`insert into orders ${columns} values (?, ?, ?)`, [request, item, customer])
}

/** Reports nothing when the row exists, nor when the row is refused for another reason or truncated. */
export function ignore(db: Sql, request: string, item: string | null, customer = 1): Promise<unknown> {
  return db.run(`insert ignore into orders ${columns} values (?, ?, ?)`, [request, item, customer])
}

/** Overwrites the first with the second: the first values are gone. */
export function update(db: Sql, request: string, item: string): Promise<unknown> {
  return db.run(
    `insert into orders ${columns} values (?, ?, 1) on duplicate key update item = values(item)`,
    [request, item],
  )
}

/** Deletes the first and inserts the second: another id, columns that were not given are at their default, children are gone. */
export function replace(db: Sql, request: string, item: string): Promise<unknown> {
  return db.run(`replace into orders ${columns} values (?, ?, 1)`, [request, item])
}

/** Looks in the same statement. Without a unique key these are still two steps for two concurrent requests. */
export function notExists(db: Sql, request: string, item: string): Promise<unknown> {
  return db.run(
    'insert into loose (request, item) select ?, ? from dual where not exists (select 1 from loose where request = ?)',
    [request, item, request],
  )
}
