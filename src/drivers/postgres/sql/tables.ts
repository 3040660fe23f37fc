/**
 * The tables. All times are microseconds since 1970 by the server's clock, all durations microseconds, so that clients compare no times
 * of their own (`to_timestamp(expires / 1e6)` shows a time).
 *
 * `holdfast_locks`: one row per name, never deleted by a release; verbs of one name queue up at it. An exclusive hold is written into it,
 * so that acquire and release are one update each. `up_to`: the greatest token granted or reserved. `line`: true if there may be
 * waiters. `ended`: attempts that ended by release or cancel, newest first.
 * `holdfast_holds`: shared and permit holds, and those of the strategy `session`, whose names begin with U+0001.
 * `holdfast_waiters`: the queue, in the order of `ticket`. `channel`: where the waiter's process listens, null when it polls; `listener`:
 * server process and start of the listening connection, null if unknown. `due`: until when the waiter is presumed alive.
 * `holdfast_ghosts`: abandoned attempts of which a request may still arrive; the server refuses it until `until`.
 */
export const tables = `
create table if not exists S.holdfast_locks (
  name text collate "C" primary key,
  kind text not null default '-',
  owner text,
  token bigint not null default 0,
  up_to bigint not null default 0,
  permits int,
  taken int not null default 0,
  ttl bigint not null default 0,
  since bigint,
  expires bigint,
  channel text,
  holder text,
  note text,
  line boolean not null default false,
  ended text[] not null default '{}',
  used bigint not null default 0
) with (fillfactor = 50);

create table if not exists S.holdfast_holds (
  name text collate "C" not null,
  attempt text not null,
  kind text not null,
  take int not null,
  token bigint not null,
  ttl bigint not null,
  since bigint not null,
  expires bigint,
  channel text,
  holder text,
  note text,
  pid int,
  lock_key bigint,
  primary key (name, attempt)
) with (fillfactor = 70);

create table if not exists S.holdfast_waiters (
  name text collate "C" not null,
  ticket bigint not null,
  attempt text not null,
  kind text not null,
  take int not null,
  permits int,
  ttl bigint not null,
  due bigint not null,
  since bigint not null,
  channel text,
  holder text,
  note text,
  listener text,
  primary key (name, ticket)
) with (fillfactor = 70);

create index if not exists holdfast_waiters_attempt on S.holdfast_waiters (name, attempt);

create table if not exists S.holdfast_ghosts (
  name text collate "C" not null,
  attempt text not null,
  until bigint not null,
  primary key (name, attempt)
);
`
