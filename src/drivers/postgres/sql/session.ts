/**
 * The strategy `session`: the lock primitive is an advisory lock of one dedicated connection; the tables only record the holders, the
 * waiters and the next token. A row left by an ended session does not count: the functions check `pg_locks`.
 *
 * The server itself ends a session that is silent for `idle_session_timeout`, which acquisitions and heartbeats set to the
 * longest ttl in use; so a holder that is cut off loses its locks after that, not when TCP notices. Push: `w <attempt>` it is your turn to try.
 */
export const sessionFunctions = `
-- Does the session that wrote this hold still have its advisory lock?
create or replace function S.holdfast_alive_v1(h S.holdfast_holds) returns boolean language sql stable as $$
  select exists (select from pg_locks p where p.locktype = 'advisory' and p.objsubid = 1 and p.pid = h.pid and p.granted
    and p.database = (select d.oid from pg_database d where d.datname = current_database())
    and p.classid = ((h.lock_key >> 32) & 4294967295)::oid and p.objid = (h.lock_key & 4294967295)::oid)
$$;

-- One try. Parameters: name (after U+0001), attempt, kind x|s, key of the advisory lock, ttl, 1 = create a queue entry, µs to be
-- thought alive, ms of silence after which the server ends this session, channel or null, by, note, 1 = no notifications.
-- Answer: as holdfast_acquire_v1, without "over" and "limit".
create or replace function S.holdfast_session_acquire_v1(_name text, _attempt text, _kind text, _key bigint, _ttl bigint, _wait int,
  _alive bigint, _idle int, _channel text, _by text, _note text, _quiet int) returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); h S.holdfast_holds; token bigint; place_ bigint; taken boolean := false; place int := 0;
begin
  perform set_config('idle_session_timeout', _idle::text, false);
  select * into h from S.holdfast_holds o where o.name = _name and o.attempt = _attempt and o.pid = pg_backend_pid();
  if found and S.holdfast_alive_v1(h) then return '["granted",' || h.token || ',1]'; end if;
  -- First come, first served among live waiters; an entry that expires later than any may was written before the clock was set
  -- back: its owner polls again soon, or is dead. Advisory locks of one session do not exclude each other.
  select q.ticket into place_ from S.holdfast_waiters q where q.name = _name and q.attempt = _attempt;
  if not exists (select from S.holdfast_waiters q where q.name = _name and q.attempt <> _attempt and q.due > now
      and q.due <= now + _alive and 'x' in (q.kind, _kind) and (place_ is null or q.ticket < place_))
    and not exists (select from S.holdfast_holds o where o.name = _name and o.pid = pg_backend_pid() and 'x' in (o.kind, _kind)
      and S.holdfast_alive_v1(o)) then
    taken := case _kind when 'x' then pg_try_advisory_lock(_key) else pg_try_advisory_lock_shared(_key) end;
  end if;
  if taken then
    begin
      token := S.holdfast_mint_v1(_name)::bigint;
      if _kind = 'x' then delete from S.holdfast_holds o where o.name = _name; end if;
      delete from S.holdfast_waiters q where q.name = _name and q.attempt = _attempt;
      insert into S.holdfast_holds values
        (_name, _attempt, _kind, 1, token, _ttl, now, null, _channel, _by, _note, pg_backend_pid(), _key)
        on conflict (name, attempt) do update set token = excluded.token, pid = excluded.pid, since = excluded.since;
    exception when others or query_canceled then
      -- The lock would outlive the statement. (OTHERS alone does not mean a statement that was cancelled, or took too long.)
      if _kind = 'x' then perform pg_advisory_unlock(_key); else perform pg_advisory_unlock_shared(_key); end if;
      raise;
    end;
    return '["granted",' || token || ',1]';
  end if;
  if _wait = 1 then
    if place_ is not null then
      update S.holdfast_waiters q set due = now + _alive, channel = _channel where q.name = _name and q.ticket = place_;
    else
      -- Not in turn at the row of the name: a transaction of somebody's own keeps that for as long as it lasts.
      loop
        place_ := greatest(coalesce((select max(q.ticket) from S.holdfast_waiters q where q.name = _name), 0) + 1, now);
        insert into S.holdfast_waiters (name, ticket, attempt, kind, take, permits, ttl, due, since, channel, holder, note)
          values (_name, place_, _attempt, _kind, 1, 1, _ttl, now + _alive, now, _channel, _by, _note) on conflict do nothing;
        exit when found;
        now := S.holdfast_now_v1();
      end loop;
    end if;
    place := (select count(*) from S.holdfast_waiters q where q.name = _name and q.ticket < place_ and q.due > now
      and q.due <= now + _alive) + 1;
  end if;
  return json_build_array('blocked', coalesce(place, 0), coalesce(place_, 0), 0, (select json_build_array(o.attempt, o.kind, 1, 1,
    o.token, now - o.since, null, o.holder, o.note) from S.holdfast_holds o where o.name = _name and S.holdfast_alive_v1(o)
    order by o.token limit 1))::text;
end $$;

-- Wakes the next waiter; with a reader, the readers behind it.
create or replace function S.holdfast_session_wake_v1(_name text, _quiet int) returns void language plpgsql as $$
declare w S.holdfast_waiters; readers boolean := false; now bigint := S.holdfast_now_v1();
begin
  for w in select * from S.holdfast_waiters q where q.name = _name and q.due > now order by q.ticket limit 50 loop
    exit when readers and w.kind = 'x';
    if w.channel is not null and _quiet = 0 then perform pg_notify(w.channel, 'w ' || w.attempt); end if;
    exit when w.kind = 'x';
    readers := true;
  end loop;
end $$;

-- Ends an attempt, holding or waiting, and wakes the next waiter. Parameters: name, attempt, 1 = no notifications.
-- Answer: 1 this session held it · 0 it did not.
create or replace function S.holdfast_session_release_v1(_name text, _attempt text, _quiet int) returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); h S.holdfast_holds; was_held boolean;
begin
  delete from S.holdfast_holds o where o.name = _name and o.attempt = _attempt and o.pid = pg_backend_pid() returning * into h;
  was_held := found;
  delete from S.holdfast_waiters q where q.name = _name and (q.attempt = _attempt or q.due < now - 60000000);
  perform S.holdfast_session_wake_v1(_name, _quiet);
  -- Last, because it knows no rollback: done twice, it would take the lock of another reader of this session.
  if was_held then
    was_held := case h.kind when 'x' then pg_advisory_unlock(h.lock_key) else pg_advisory_unlock_shared(h.lock_key) end;
  end if;
  return was_held::int::text;
end $$;

-- Exclusive to shared; no writer gets in between. Parameters: name, attempt, 1 = no notifications. Answer: 1, or 0 when not held.
create or replace function S.holdfast_session_downgrade_v1(_name text, _attempt text, _quiet int) returns text
language plpgsql as $$
declare h S.holdfast_holds;
begin
  perform S.holdfast_begin_v1();
  select * into h from S.holdfast_holds o where o.name = _name and o.attempt = _attempt and o.pid = pg_backend_pid();
  if not found or not S.holdfast_alive_v1(h) then return '0'; end if;
  if h.kind = 'x' then
    update S.holdfast_holds o set kind = 's' where o.name = _name and o.attempt = _attempt;
    if not pg_try_advisory_lock_shared(h.lock_key) then return '0'; end if;
    perform pg_advisory_unlock(h.lock_key);
    perform S.holdfast_session_wake_v1(_name, _quiet);
  end if;
  return '1';
end $$;

-- Gives back, once each, the advisory locks of this session that no hold stands for: of a statement that was rolled back after it had
-- taken one. Answer: how many there were; more than 0: there may be more.
create or replace function S.holdfast_session_tidy_v1() returns text language plpgsql as $$
declare p record; strays int := 0;
begin
  for p in select * from (select l.mode = 'ExclusiveLock' as alone, (l.classid::bigint << 32) | l.objid::bigint as lock_key
      from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1 and l.pid = pg_backend_pid() and l.granted
        and l.database = (select d.oid from pg_database d where d.datname = current_database())) a
    where not exists (select from S.holdfast_holds o where o.pid = pg_backend_pid() and o.lock_key = a.lock_key
      and (o.kind = 'x') = a.alone)
  loop
    strays := strays + 1;
    if p.alone then perform pg_advisory_unlock(p.lock_key); else perform pg_advisory_unlock_shared(p.lock_key); end if;
  end loop;
  return strays::text;
end $$;

-- Proves that the session is there. Parameter: ms of silence after which the server ends it. Answer: its process.
create or replace function S.holdfast_session_beat_v1(_idle int) returns text language sql as $$
  select set_config('idle_session_timeout', _idle::text, false);
  select pg_backend_pid()::text
$$;

-- As holdfast_inspect_v1; a holder has no µs left (null): it holds while its connection lives.
create or replace function S.holdfast_session_inspect_v1(_name text) returns text language plpgsql as $$
declare now bigint := S.holdfast_now_v1(); holders json; waiters json;
begin
  select json_agg(json_build_array(h.attempt, h.kind, 1, 1, h.token, now - h.since, null, h.holder, h.note) order by h.token)
    into holders from S.holdfast_holds h where h.name = _name and S.holdfast_alive_v1(h);
  select json_agg(json_build_array(q.attempt, q.kind, 1, 1, now - q.since, q.holder, q.note) order by q.ticket)
    into waiters from S.holdfast_waiters q where q.name = _name and q.due > now;
  return json_build_array(coalesce((select k.up_to from S.holdfast_locks k where k.name = _name), 0), coalesce(holders, '[]'),
    coalesce(waiters, '[]'))::text;
end $$;

-- As holdfast_list_v1, of the names that begin with U+0001 and the parameter.
create or replace function S.holdfast_session_list_v1(_prefix text) returns text language sql as $$
  select coalesce(json_agg(json_build_array(n.name, S.holdfast_session_inspect_v1(n.name)::json) order by n.name), '[]')::text
  from (select h.name from S.holdfast_holds h union select q.name from S.holdfast_waiters q) n
  where starts_with(n.name, e'\\x01') and starts_with(n.name, _prefix)
$$;
`
