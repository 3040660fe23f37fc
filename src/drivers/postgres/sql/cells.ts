/** Cells: small shared values beside the locks. A removed cell keeps its row, and so its version, until the reaper deletes it. */
export const cellFunctions = `
create table if not exists S.holdfast_cells (
  key text collate "C" primary key,
  version bigint not null,
  value text,
  write_id text,
  expires bigint
) with (fillfactor = 70);

-- The watchers of a cell's next change: channels of processes, each until its next poll is due.
create table if not exists S.holdfast_watchers (
  key text collate "C" not null,
  channel text not null,
  due bigint not null,
  primary key (key, channel)
);

create or replace function S.holdfast_cell_v1(_key text, _now bigint) returns S.holdfast_cells language plpgsql as $$
declare c S.holdfast_cells;
begin
  loop
    select * into c from S.holdfast_cells k where k.key = _key for update;
    if found then return c; end if;
    insert into S.holdfast_cells values (_key, 0, null, null, _now) on conflict do nothing;
  end loop;
end $$;

-- What is there now: its version, or 0.
create or replace function S.holdfast_version_v1(c S.holdfast_cells, _now bigint) returns bigint language sql immutable as $$
  select case when c.value is not null and (c.expires is null or c.expires > _now) then c.version else 0 end
$$;

-- Parameter: key. Answer: [version, value], or null.
create or replace function S.holdfast_cell_read_v1(_key text) returns text language plpgsql as $$
declare c S.holdfast_cells;
begin
  select * into c from S.holdfast_cells k where k.key = _key;
  if S.holdfast_version_v1(c, S.holdfast_now_v1()) = 0 then return 'null'; end if;
  return json_build_array(c.version, c.value)::text;
end $$;

-- Parameters: key, version seen (0: none), id of the change, µs to keep it (null: for ever), value (null: remove), 1 = no
-- notifications. Answer: the new version, or null when somebody was faster.
create or replace function S.holdfast_cell_write_v1(_key text, _seen bigint, _id text, _keep bigint, _value text, _quiet int)
returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); c S.holdfast_cells; w S.holdfast_watchers;
begin
  if _seen > 0 and not exists (select from S.holdfast_cells k where k.key = _key) then return 'null'; end if;
  c := S.holdfast_cell_v1(_key, now);
  now := S.holdfast_now_v1();
  if c.write_id = _id and (c.expires is null or c.expires > now) then return c.version::text; end if;
  if S.holdfast_version_v1(c, now) <> _seen then return 'null'; end if;
  c.version := greatest(c.version + 1, now);
  update S.holdfast_cells k set version = c.version, value = _value, write_id = _id,
    expires = case when _value is null then now + 60000000 else now + _keep end where k.key = _key;
  for w in delete from S.holdfast_watchers d where d.key = _key returning * loop
    if w.due > now and _quiet = 0 then perform pg_notify(w.channel, 'k ' || _key); end if;
  end loop;
  return c.version::text;
end $$;

-- Parameters: key, version known (0: none), channel or null, µs until it is looked at again. Answer: null when it has another
-- version, else µs until it ends by itself, -1: never. The row is written, so that a change under way sees the watcher.
create or replace function S.holdfast_cell_watch_v1(_key text, _version bigint, _channel text, _due bigint) returns text
language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); c S.holdfast_cells;
begin
  if _channel is null then
    select * into c from S.holdfast_cells k where k.key = _key;
  else
    c := S.holdfast_cell_v1(_key, now);
    update S.holdfast_cells k set version = k.version where k.key = _key;
    insert into S.holdfast_watchers as o values (_key, _channel, now + _due)
      on conflict (key, channel) do update set due = greatest(o.due, excluded.due);
  end if;
  now := S.holdfast_now_v1();
  if S.holdfast_version_v1(c, now) <> _version then return 'null'; end if;
  return case when _version = 0 or c.expires is null then -1 else c.expires - now end::text;
end $$;

-- Forgets what has been gone for so many µs (the parameter). Answer: how many.
create or replace function S.holdfast_cell_reap_v1(_retention bigint) returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); gone int;
begin
  delete from S.holdfast_watchers w where w.due < now - _retention;
  with old as (
    -- Nor those whose versions are ahead of a clock that was set back: made anew they would begin below them.
    select k.key from S.holdfast_cells k where k.expires < now - _retention and k.version < now - _retention
      limit 1000 for update skip locked
  )
  delete from S.holdfast_cells k using old where k.key = old.key;
  get diagnostics gone = row_count;
  return gone::text;
end $$;
`
