/** What operators and housekeeping need of the strategy `row`: force, inspect, list, reap; and tokens for what is no lock. */
export const operatorFunctions = `
-- Ends every hold and notifies the holders. Parameters: name, 1 = no notifications. Answer: how many it ended that were not overdue.
create or replace function S.holdfast_force_v1(_name text, _quiet int) returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); l S.holdfast_locks; was S.holdfast_locks; h S.holdfast_holds; ended int := 0;
begin
  l := S.holdfast_row_v1(_name, false);
  if l.name is null then return '0'; end if;
  was := l;
  now := S.holdfast_now_v1();
  l := S.holdfast_look_v1(l, now);
  if l.kind = 'x' then
    ended := 1;
    if l.channel is not null and _quiet = 0 then perform pg_notify(l.channel, 'x ' || l.owner); end if;
  end if;
  for h in delete from S.holdfast_holds d where d.name = _name returning * loop
    ended := ended + 1;
    if h.channel is not null and _quiet = 0 then perform pg_notify(h.channel, 'x ' || h.attempt); end if;
  end loop;
  l := S.holdfast_free_v1(l);
  l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
  perform S.holdfast_save_v1(was, l, now);
  return ended::text;
end $$;

-- The holders and waiters. Parameter: name. Answer: [newest token, [holder, ...], [waiter, ...]], a waiter being
-- [attempt, kind, take, limit, µs waited, by, note].
create or replace function S.holdfast_inspect_v1(_name text) returns text language plpgsql as $$
declare now bigint := S.holdfast_now_v1(); l S.holdfast_locks; holders json; waiters json;
begin
  select * into l from S.holdfast_locks k where k.name = _name;
  if l.kind = 'x' and l.expires > now then holders := json_build_array(S.holdfast_holder_v1(l, now)); end if;
  if l.kind in ('s', 'p') then
    select json_agg(json_build_array(h.attempt, h.kind, h.take, l.permits, h.token, now - h.since, h.expires - now, h.holder, h.note)
      order by h.token) into holders from S.holdfast_holds h where h.name = _name and h.expires > now;
  end if;
  select json_agg(json_build_array(q.attempt, q.kind, q.take, q.permits, now - q.since, q.holder, q.note) order by q.ticket)
    into waiters from S.holdfast_waiters q where q.name = _name and q.due > now;
  return json_build_array(coalesce(case when l.kind = 'x' then l.token else l.up_to end, 0), coalesce(holders, '[]'),
    coalesce(waiters, '[]'))::text;
end $$;

-- Every name held or waited for. Parameter: its beginning. Answer: [[name, what inspect answers], ...].
create or replace function S.holdfast_list_v1(_prefix text) returns text language sql as $$
  select coalesce(json_agg(json_build_array(k.name, S.holdfast_inspect_v1(k.name)::json) order by k.name), '[]')::text
  from S.holdfast_locks k where (k.kind <> '-' or k.line) and starts_with(k.name, _prefix) and not starts_with(k.name, e'\\x01')
$$;

-- Forgets names that nobody has used for so many µs (the parameter), a thousand at most. Answer: how many.
create or replace function S.holdfast_reap_v1(_retention bigint) returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); l S.holdfast_locks; was S.holdfast_locks; gone int := 0;
begin
  -- Nor those whose tokens are ahead of a clock that was set back: made anew they would begin below them.
  for l in select * from S.holdfast_locks k where k.used < now - _retention and k.up_to < now - _retention
    limit 1000 for update skip locked loop
    was := l;
    l := S.holdfast_look_v1(l, now);
    delete from S.holdfast_waiters q where q.name = l.name and q.due < now - _retention;
    delete from S.holdfast_holds h where h.name = l.name and h.pid is not null and not exists
      (select from pg_locks p where p.locktype = 'advisory' and p.pid = h.pid);
    l.line := exists (select from S.holdfast_waiters q where q.name = l.name);
    delete from S.holdfast_ghosts g where g.name = l.name and g.until < now;
    if l.kind = '-' and not l.line and not exists (select from S.holdfast_holds h where h.name = l.name)
      and not exists (select from S.holdfast_ghosts g where g.name = l.name) then
      delete from S.holdfast_locks k where k.name = l.name;
      gone := gone + 1;
    end if;
  end loop;
  return gone::text;
end $$;

-- The next token of a name that is guarded by something else. Parameter: name. Answer: the token.
create or replace function S.holdfast_mint_v1(_name text) returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); token bigint;
begin
  insert into S.holdfast_locks as k (name, up_to, used) values (_name, now, now)
    on conflict (name) do update set up_to = greatest(k.up_to + 1, now), used = now
    returning k.up_to into token;
  return token::text;
end $$;
`
