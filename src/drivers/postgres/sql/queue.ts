/**
 * The inside of the verbs: the row, which holds can coexist, the queue. A port of `src/drivers/memory/table.ts`, and compared with
 * it command by command in test/drivers/postgres/differential.test.ts.
 *
 * Notifications, on the channel of the process: `g <attempt>` it is your turn · `n <attempt> <µs>` you are next, poll then at the latest ·
 * `c <attempt>` somebody waits for what you hold · `x <attempt>` an operator took it. They are hints: any role may send them, so the
 * process asks the server before it believes one.
 *
 * Long because the rules that decide who holds are read together.
 */
export const queueFunctions = `
-- What every verb begins with: its commit is on disk before it is answered, and no wait for a row is longer than lock_timeout, because
-- what is sent behind it on the same connection waits as long. The client asks again.
create or replace function S.holdfast_begin_v1() returns bigint language plpgsql as $$
begin
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform set_config('lock_timeout', '100', true);
  return (extract(epoch from clock_timestamp()) * 1000000)::bigint;
end $$;

create or replace function S.holdfast_now_v1() returns bigint language sql volatile as $$
  select (extract(epoch from clock_timestamp()) * 1000000)::bigint
$$;

-- The row of a name, locked; its first use creates it, unless _create is false. Null when there is none.
create or replace function S.holdfast_row_v1(_name text, _create boolean) returns S.holdfast_locks language plpgsql as $$
declare l S.holdfast_locks;
begin
  loop
    select * into l from S.holdfast_locks k where k.name = _name for update;
    if found then return l; end if;
    if not _create then return null; end if;
    insert into S.holdfast_locks (name) values (_name) on conflict do nothing;
  end loop;
end $$;

create or replace function S.holdfast_save_v1(_was S.holdfast_locks, l S.holdfast_locks, _now bigint) returns void language plpgsql as $$
begin
  if l is distinct from _was then
    update S.holdfast_locks k set kind = l.kind, owner = l.owner, token = l.token, up_to = l.up_to, permits = l.permits,
      taken = l.taken, ttl = l.ttl, since = l.since, expires = l.expires, channel = l.channel, holder = l.holder, note = l.note,
      line = l.line, ended = l.ended, used = _now
    where k.name = l.name;
  end if;
end $$;

create or replace function S.holdfast_admits_v1(l S.holdfast_locks, _kind text, _take int, _of int) returns boolean
language sql immutable as $$
  select l.kind = '-' or l.kind = _kind and (_kind = 's' or _kind = 'p' and l.taken + _take <= _of)
$$;

-- Nobody holds it.
create or replace function S.holdfast_free_v1(l S.holdfast_locks) returns S.holdfast_locks language plpgsql as $$
begin
  l.kind := '-'; l.owner := null; l.permits := null; l.taken := 0; l.ttl := 0; l.since := null; l.expires := null;
  l.channel := null; l.holder := null; l.note := null;
  return l;
end $$;

-- Sums up shared and permit holds. Only where one has run out: between, "taken" is kept by each change, "expires" is no later than the
-- first end and "ttl" no less than the longest, so that what one of many holders does costs the same however many there are.
create or replace function S.holdfast_count_v1(l S.holdfast_locks) returns S.holdfast_locks language plpgsql as $$
begin
  select coalesce(sum(take), 0), max(h.ttl), min(h.expires) into l.taken, l.ttl, l.expires
    from S.holdfast_holds h where h.name = l.name;
  if l.taken = 0 then l := S.holdfast_free_v1(l); end if;
  return l;
end $$;

-- Drops expired holds. A deadline further away than its ttl results from a clock that was set back: at most the ttl is left.
create or replace function S.holdfast_look_v1(l S.holdfast_locks, _now bigint) returns S.holdfast_locks language plpgsql as $$
begin
  if l.kind = '-' then return l; end if;
  if l.expires > _now + l.ttl then
    l.expires := _now + l.ttl;
    if l.kind <> 'x' then
      update S.holdfast_holds h set expires = _now + l.ttl where h.name = l.name and h.expires > _now + l.ttl;
    end if;
  end if;
  if l.expires <= _now then
    if l.kind = 'x' then return S.holdfast_free_v1(l); end if;
    delete from S.holdfast_holds h where h.name = l.name and h.expires <= _now;
    return S.holdfast_count_v1(l);
  end if;
  return l;
end $$;

-- Makes the hold, with the token after all that were given or reserved. An exclusive one comes with its reserve.
create or replace function S.holdfast_grant_v1(l S.holdfast_locks, _attempt text, _kind text, _take int, _of int, _ttl bigint,
  _now bigint, _channel text, _by text, _note text) returns S.holdfast_locks language plpgsql as $$
begin
  l.token := greatest(l.up_to + 1, _now);
  l.up_to := l.token;
  if _kind = 'x' then
    l.up_to := l.token + 65536;
    l.kind := 'x'; l.owner := _attempt; l.ttl := _ttl; l.since := _now; l.expires := _now + _ttl;
    l.channel := _channel; l.holder := _by; l.note := _note;
    return l;
  end if;
  insert into S.holdfast_holds (name, attempt, kind, take, token, ttl, since, expires, channel, holder, note)
    values (l.name, _attempt, _kind, _take, l.token, _ttl, _now, _now + _ttl, _channel, _by, _note);
  l.kind := _kind; l.permits := _of; l.taken := l.taken + _take; l.ttl := greatest(l.ttl, _ttl);
  l.expires := least(l.expires, _now + _ttl);
  return l;
end $$;

-- The token of a hold; null: it does not hold.
create or replace function S.holdfast_held_v1(l S.holdfast_locks, _attempt text) returns bigint language plpgsql as $$
begin
  if l.kind = 'x' then return case when l.owner = _attempt then l.token end; end if;
  if l.kind = '-' then return null; end if;
  return (select h.token from S.holdfast_holds h where h.name = l.name and h.attempt = _attempt);
end $$;

-- Ends a hold. The last token its process reports as used is limited to its reserve; null: all of it.
create or replace function S.holdfast_leave_v1(l S.holdfast_locks, _attempt text, _last bigint) returns S.holdfast_locks
language plpgsql as $$
declare given int;
begin
  if l.kind = 'x' then
    l.up_to := least(greatest(coalesce(_last, l.up_to), l.token), l.up_to);
    return S.holdfast_free_v1(l);
  end if;
  delete from S.holdfast_holds h where h.name = l.name and h.attempt = _attempt returning h.take into given;
  l.taken := l.taken - coalesce(given, 0);
  if l.taken <= 0 then return S.holdfast_free_v1(l); end if;
  return l;
end $$;

create or replace function S.holdfast_extend_v1(l S.holdfast_locks, _attempt text, _ttl bigint, _now bigint)
returns S.holdfast_locks language plpgsql as $$
begin
  if l.kind = 'x' then
    l.ttl := _ttl; l.expires := _now + _ttl;
    return l;
  end if;
  update S.holdfast_holds h set ttl = _ttl, expires = _now + _ttl where h.name = l.name and h.attempt = _attempt;
  l.ttl := greatest(l.ttl, _ttl);
  l.expires := least(l.expires, _now + _ttl);
  return l;
end $$;

-- The same, but whatever is later or longer stays: nothing becomes shorter.
create or replace function S.holdfast_keep_v1(l S.holdfast_locks, _attempt text, _left bigint, _now bigint)
returns S.holdfast_locks language plpgsql as $$
begin
  l.ttl := greatest(l.ttl, _left);
  if l.kind = 'x' then
    l.expires := greatest(l.expires, _now + _left);
  else
    update S.holdfast_holds h set ttl = greatest(h.ttl, _left), expires = greatest(h.expires, _now + _left)
      where h.name = l.name and h.attempt = _attempt;
  end if;
  return l;
end $$;

-- Is this the newest order of the attempt to end its hold sooner? It is remembered for three minutes: a late copy ends nothing.
create or replace function S.holdfast_newest_v1(_name text, _attempt text, _order bigint, _now bigint) returns boolean
language plpgsql as $$
declare newest bigint;
begin
  delete from S.holdfast_ghosts g where g.name = _name and g.until < _now;
  select max(substr(g.attempt, length(_attempt) + 2)::bigint) into newest from S.holdfast_ghosts g
    where g.name = _name and starts_with(g.attempt, _attempt || '/');
  if newest >= _order then return false; end if;
  delete from S.holdfast_ghosts g where g.name = _name and starts_with(g.attempt, _attempt || '/');
  insert into S.holdfast_ghosts values (_name, _attempt || '/' || _order, _now + 180000000);
  return true;
end $$;

-- From now on the holder is notified there.
create or replace function S.holdfast_reached_v1(l S.holdfast_locks, _attempt text, _channel text) returns S.holdfast_locks
language plpgsql as $$
begin
  if l.kind = 'x' then
    l.channel := _channel;
  else
    update S.holdfast_holds h set channel = _channel where h.name = l.name and h.attempt = _attempt;
  end if;
  return l;
end $$;

-- Has the attempt ended, by release or cancel?
create or replace function S.holdfast_ended_v1(l S.holdfast_locks, _attempt text) returns boolean language plpgsql as $$
begin
  return _attempt = any (l.ended) or exists (select from S.holdfast_ghosts g where g.name = l.name and g.attempt = _attempt);
end $$;

-- Has the connection on which its process listened ended for certain? Where the server does not tell (another role, no listener), it has not.
create or replace function S.holdfast_deaf_v1(_listener text) returns boolean language sql stable as $$
  select _listener is not null and not exists (
    select from pg_stat_get_activity(split_part(_listener, ' ', 1)::int) a
    where a.backend_start is null
      or (extract(epoch from a.backend_start) * 1000000)::bigint = split_part(_listener, ' ', 2)::bigint)
$$;

create or replace function S.holdfast_remember_v1(l S.holdfast_locks, _attempt text) returns S.holdfast_locks
language plpgsql as $$
begin
  if not _attempt = any (l.ended) then l.ended := (array[_attempt] || l.ended)[1:8]; end if;
  return l;
end $$;

-- Lets in the head of the queue for as long as it fits, for its whole ttl. _me asks just now; another is told to ask. One that polls
-- keeps its place until it is due to ask, and the lock with it, for which the next must fit beside it. One whose connection has ended is passed over: it keeps its place for
-- three seconds, in which a process that lives connects and asks again. One that is silent, or that cannot be known to be gone, costs its ttl.
create or replace function S.holdfast_advance_v1(l S.holdfast_locks, _me text, _ttl bigint, _now bigint, _quiet int)
returns S.holdfast_locks language plpgsql as $$
declare w S.holdfast_waiters; after S.holdfast_waiters; told boolean := false; any_left boolean := false; gone text[] := '{}'; is_gone boolean;
  kept text; keeps int := 0; beside S.holdfast_locks;
begin
  if not l.line then return l; end if;
  select * into w from S.holdfast_waiters q where q.name = l.name order by q.ticket limit 1;
  loop
    if w.name is null then
      l.line := any_left;
      return l;
    end if;
    beside := l;
    if l.kind = '-' and kept is not null then
      beside.kind := kept; beside.taken := 0;
    end if;
    beside.taken := beside.taken + keeps;
    exit when not S.holdfast_admits_v1(beside, w.kind, w.take, w.permits);
    select * into after from S.holdfast_waiters q where q.name = l.name and q.ticket > w.ticket order by q.ticket limit 1;
    if w.attempt <> _me and w.due > _now and w.channel is null then
      exit when w.kind = 'x';
      kept := w.kind; keeps := keeps + w.take; any_left := true;
      w := after;
      continue;
    end if;
    is_gone := false;
    if w.attempt <> _me and w.due > _now and w.listener is not null then
      is_gone := w.listener = any (gone) or S.holdfast_deaf_v1(w.listener);
      if is_gone and not w.listener = any (gone) then gone := gone || w.listener; end if;
    end if;
    if is_gone then
      any_left := true;
      if w.due > _now + 3000000 then
        update S.holdfast_waiters q set due = _now + 3000000 where q.name = w.name and q.ticket = w.ticket;
      end if;
    else
      delete from S.holdfast_waiters q where q.name = w.name and q.ticket = w.ticket;
      if w.attempt = _me then
        l := S.holdfast_grant_v1(l, w.attempt, w.kind, w.take, w.permits, _ttl, _now, w.channel, w.holder, w.note);
      elsif w.due > _now then
        l := S.holdfast_grant_v1(l, w.attempt, w.kind, w.take, w.permits, w.ttl, _now, w.channel, w.holder, w.note);
        told := true;
        if _quiet = 0 then perform pg_notify(w.channel, 'g ' || w.attempt); end if;
      end if;
    end if;
    w := after;
  end loop;
  -- A waiter must poll when the hold ahead ends, in case it is never extended; otherwise it polls every few seconds.
  if told and w.channel is not null and l.expires < _now + 5000000 and _quiet = 0 then
    perform pg_notify(w.channel, concat_ws(' ', 'n', w.attempt, l.expires - _now));
  end if;
  return l;
end $$;

-- Brings the row up to date: drops expired holds, and grants to the waiters that then fit.
create or replace function S.holdfast_bring_v1(l S.holdfast_locks, _now bigint, _quiet int) returns S.holdfast_locks
language plpgsql as $$
begin
  l := S.holdfast_look_v1(l, _now);
  if l.line and l.kind <> 'x' then l := S.holdfast_advance_v1(l, '', 0, _now, _quiet); end if;
  return l;
end $$;

create or replace function S.holdfast_holder_v1(l S.holdfast_locks, _now bigint) returns json language plpgsql as $$
begin
  if l.kind = 'x' then
    return json_build_array(l.owner, 'x', 1, 1, l.token, _now - l.since, l.expires - _now, l.holder, l.note);
  end if;
  return (select json_build_array(h.attempt, h.kind, h.take, l.permits, h.token, _now - h.since, h.expires - _now, h.holder, h.note)
    from S.holdfast_holds h where h.name = l.name order by h.expires limit 1);
end $$;
`
