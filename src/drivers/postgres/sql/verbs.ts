/**
 * The verbs of a client of the strategy `row`, fast paths included. Those of operators are in `operators.ts`.
 *
 * Long because the verbs stand side by side.
 */
export const verbs = `
-- Takes the lock, or a place in the queue, or proves a place, or proves the hold of an attempt that was let in. Parameters: name, attempt,
-- kind x|s|p, ttl, permits taken, limit, 1 = stand in the queue, µs to be thought alive, place had before (ticket, 0 = none), channel or
-- null, its listener or null, by, note, 1 = no notifications. Answer: ["granted", token, 1 = others wait] · ["over"] ended before ·
-- ["limit", limit in use] · ["blocked", place (0 = none taken; beyond 1000 it says 1000), ticket, µs until it is worth asking again, holder
-- or null], a holder being [attempt, kind, take, limit, token, µs held, µs left, by, note].
create or replace function S.holdfast_acquire_v1(_name text, _attempt text, _kind text, _ttl bigint, _take int, _of int,
  _wait int, _alive bigint, _ticket bigint, _channel text, _listener text, _by text, _note text, _quiet int)
returns text language plpgsql as $$
declare
  now bigint := S.holdfast_begin_v1();
  l S.holdfast_locks; was S.holdfast_locks; w S.holdfast_waiters;
  token bigint; other int; place int; lined boolean; answer json;
begin
  if _kind = 'x' then
    update S.holdfast_locks k set kind = 'x', owner = _attempt, token = greatest(k.up_to + 1, now),
      up_to = greatest(k.up_to + 1, now) + 65536, ttl = _ttl, since = now, expires = now + _ttl, permits = null, taken = 0,
      channel = _channel, holder = _by, note = _note, used = now
    where k.name = _name and not k.line and (k.kind = '-' or k.kind = 'x' and k.expires <= now) and not _attempt = any (k.ended)
      and not exists (select from S.holdfast_ghosts g where g.name = _name and g.attempt = _attempt)
    returning k.token into token;
    if found then return '["granted",' || token || ',0]'; end if;
    if _ticket > 0 then
      -- It was notified that it is its turn.
      update S.holdfast_locks k set ttl = greatest(k.ttl, _ttl), expires = greatest(now + _ttl, least(k.expires, now + k.ttl)),
        channel = _channel, used = now
        where k.name = _name and k.kind = 'x' and k.owner = _attempt and k.expires > now
        returning k.token, k.line into token, lined;
      if found then return '["granted",' || token || ',' || lined::int || ']'; end if;
    end if;
  end if;
  l := S.holdfast_row_v1(_name, true);
  was := l;
  now := S.holdfast_now_v1();
  l := S.holdfast_look_v1(l, now);
  token := S.holdfast_held_v1(l, _attempt);
  if token is not null then
    l := S.holdfast_keep_v1(l, _attempt, _ttl, now);
  elsif S.holdfast_ended_v1(l, _attempt) then
    l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
    perform S.holdfast_save_v1(was, l, now);
    return '["over"]';
  end if;
  l := S.holdfast_advance_v1(l, _attempt, _ttl, now, _quiet);
  token := coalesce(token, S.holdfast_held_v1(l, _attempt));
  if token is null then
    select * into w from S.holdfast_waiters q where q.name = _name and q.attempt = _attempt;
    lined := found;
    if _kind = 'p' and not lined then
      other := case when l.kind = 'p' then l.permits
        when l.line then (select q.permits from S.holdfast_waiters q where q.name = _name and q.kind = 'p' limit 1) end;
      if other <> _of then
        perform S.holdfast_save_v1(was, l, now);
        return '["limit",' || other || ']';
      end if;
    end if;
    if not l.line and S.holdfast_admits_v1(l, _kind, _take, _of) then
      l := S.holdfast_grant_v1(l, _attempt, _kind, _take, _of, _ttl, now, _channel, _by, _note);
      token := l.token;
    elsif lined then
      update S.holdfast_waiters q set due = now + _alive, channel = _channel, listener = _listener
        where q.name = _name and q.ticket = w.ticket;
      -- As below: a release that began before must notice where it is reached now.
      if w.channel is distinct from _channel then l.used := now + 1; end if;
    elsif _wait = 1 or l.line and S.holdfast_admits_v1(l, _kind, _take, _of) then
      w.ticket := (select max(q.ticket) from S.holdfast_waiters q where q.name = _name);
      w.ticket := greatest(coalesce(w.ticket, 0) + 1, now);
      if _ticket > 0 and not exists (select from S.holdfast_waiters q where q.name = _name and q.ticket = _ticket) then
        w.ticket := _ticket;
      end if;
      insert into S.holdfast_waiters values (_name, w.ticket, _attempt, _kind, _take, _of, _ttl, now + _alive,
        now, _channel, _by, _note, _listener);
      if l.line and S.holdfast_admits_v1(l, _kind, _take, _of) then
        -- The waiter ahead may be gone, or may be granted only later.
        l := S.holdfast_advance_v1(l, _attempt, _ttl, now, _quiet);
        token := S.holdfast_held_v1(l, _attempt);
      end if;
      if token is null and _wait = 0 then
        delete from S.holdfast_waiters q where q.name = _name and q.ticket = w.ticket;
        w.ticket := null;
        l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
      elsif token is null then
        -- Written even if nothing in it changes: at REPEATABLE READ a release that began before must notice.
        l.used := now + 1;
        if not l.line then
          l.line := true;
          if l.kind = 'x' and l.channel is not null and _quiet = 0 then perform pg_notify(l.channel, 'c ' || l.owner); end if;
        end if;
      end if;
    end if;
  end if;
  -- Its queue entry, or a request before this one, may have had no channel yet.
  if token is not null and _channel is not null then l := S.holdfast_reached_v1(l, _attempt, _channel); end if;
  perform S.holdfast_save_v1(was, l, now);
  if token is not null then return '["granted",' || token || ',' || l.line::int || ']'; end if;
  place := case when w.ticket is null then 0
    else (select count(*) from (select from S.holdfast_waiters q where q.name = _name and q.ticket <= w.ticket limit 1000) a) end;
  -- A waiter far back polls less often.
  if place > 100 and _channel is not null then
    update S.holdfast_waiters q set due = now + _alive * place / 100 where q.name = _name and q.ticket = w.ticket;
  end if;
  answer := S.holdfast_holder_v1(l, now);
  return json_build_array('blocked', place, coalesce(w.ticket, 0), greatest(0, S.holdfast_left_v1(l, now)), answer)::text;
end $$;

-- Takes several locks of different names, or none: what one that is not free has made of the others is undone, notifications, too.
-- Parameters: JSON [[name, attempt, kind, ttl, permits taken, limit, note], ...] in the order of names, so that two of them cannot wait for each
-- other; channel or null, by, 1 = no notifications. Answer: what holdfast_acquire_v1 answers for each · ["none", its place in the list, what
-- it answered for the one that is not free].
create or replace function S.holdfast_together_v1(_items text, _channel text, _by text, _quiet int) returns text language plpgsql as $$
declare item json; answer text; answers text := ''; place int := 0;
begin
  begin
    for item in select value from json_array_elements(_items::json) loop
      place := place + 1;
      answer := S.holdfast_acquire_v1(item ->> 0, item ->> 1, item ->> 2, (item ->> 3)::bigint, (item ->> 4)::int, (item ->> 5)::int,
        0, 0, 0, _channel, null, _by, item ->> 6, _quiet);
      if not starts_with(answer, '["granted"') then raise exception using errcode = 'HF001'; end if;
      answers := answers || case when place > 1 then ',' else '' end || answer;
    end loop;
  exception when sqlstate 'HF001' then
    return '["none",' || place || ',' || answer || ']';
  end;
  return '[' || answers || ']';
end $$;

-- µs until it is worth asking: until the hold runs out, or until the one the lock is kept for is due.
create or replace function S.holdfast_left_v1(l S.holdfast_locks, _now bigint) returns bigint language plpgsql as $$
declare w S.holdfast_waiters;
begin
  select * into w from S.holdfast_waiters q where q.name = l.name order by q.ticket limit 1;
  if found and S.holdfast_admits_v1(l, w.kind, w.take, w.permits) then return w.due - _now; end if;
  return coalesce(l.expires - _now, 0);
end $$;

-- Releases a hold and grants to the next waiter. Parameters: name, attempt, last token used, 1 = no notifications.
-- Answer: 1 it was held · 2 ended before · 0 neither.
create or replace function S.holdfast_release_v1(_name text, _attempt text, _last bigint, _quiet int)
returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); l S.holdfast_locks; was S.holdfast_locks; answer text := '0';
begin
  update S.holdfast_locks k set kind = '-', owner = null, up_to = least(greatest(_last, k.token), k.up_to), ttl = 0,
    since = null, expires = null, channel = null, holder = null, note = null, used = now, ended = (array[_attempt] || k.ended)[1:8]
  where k.name = _name and k.kind = 'x' and k.owner = _attempt and not k.line and k.expires > now and k.expires <= now + k.ttl;
  if found then return '1'; end if;
  l := S.holdfast_row_v1(_name, false);
  if l.name is null then return '0'; end if;
  was := l;
  now := S.holdfast_now_v1();
  l := S.holdfast_bring_v1(l, now, _quiet);
  if S.holdfast_held_v1(l, _attempt) is not null then
    l := S.holdfast_remember_v1(S.holdfast_leave_v1(l, _attempt, _last), _attempt);
    answer := '1';
  elsif _attempt = any (l.ended) then
    answer := '2';
  end if;
  l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
  perform S.holdfast_save_v1(was, l, now);
  return answer;
end $$;

-- Renews holds. Parameters: JSON [[name, attempt, ttl, channel, order], ...] in the order of names, so that two batches cannot wait for each
-- other, ttl 0 = only look, below 0 = to last for so long at least, above 0 = exactly, unless this order or a greater one came before (an
-- older version sends none), channel null or absent = as it was; 1 = no notifications. Answer: for each 1, or 0 when it is not held, or 2 when somebody else keeps its row and there
-- are others: to be asked again by itself, so that one row costs one lease.
create or replace function S.holdfast_renew_v1(_items text, _quiet int) returns text language plpgsql as $$
declare
  now bigint := S.holdfast_begin_v1(); item json; l S.holdfast_locks; was S.holdfast_locks; free text[];
  answers int[] := '{}'; _name text; _attempt text; _ttl bigint; held boolean; alone boolean := json_array_length(_items::json) = 1;
begin
  if not alone then
    select array_agg(a.name) into free from (select k.name from S.holdfast_locks k
      where k.name in (select value ->> 0 from json_array_elements(_items::json)) order by k.name for update skip locked) a;
  end if;
  for item in select value from json_array_elements(_items::json) loop
    _name := item ->> 0; _attempt := item ->> 1; _ttl := (item ->> 2)::bigint;
    if not alone and not _name = any (coalesce(free, '{}')) then
      answers := answers || case when exists (select from S.holdfast_locks k where k.name = _name) then 2 else 0 end;
      continue;
    end if;
    now := S.holdfast_now_v1();
    held := false;
    if _ttl < 0 then
      update S.holdfast_locks k set expires = greatest(now - _ttl, least(k.expires, now + k.ttl)), ttl = greatest(k.ttl, - _ttl),
        channel = coalesce(item ->> 3, k.channel)
        where k.name = _name and k.kind = 'x' and k.owner = _attempt and k.expires > now;
      held := found;
    end if;
    if not held then
      l := S.holdfast_row_v1(_name, false);
      if l.name is not null then
        was := l;
        now := S.holdfast_now_v1();
        l := S.holdfast_bring_v1(l, now, _quiet);
        held := S.holdfast_held_v1(l, _attempt) is not null;
        if held and _ttl > 0 and item ->> 4 is not null
          and not S.holdfast_newest_v1(_name, _attempt, (item ->> 4)::bigint, now) then _ttl := - _ttl; end if;
        if held and _ttl > 0 then l := S.holdfast_extend_v1(l, _attempt, _ttl, now); end if;
        if held and _ttl < 0 then l := S.holdfast_keep_v1(l, _attempt, - _ttl, now); end if;
        if held and item ->> 3 is not null then l := S.holdfast_reached_v1(l, _attempt, item ->> 3); end if;
        l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
        perform S.holdfast_save_v1(was, l, now);
      end if;
    end if;
    answers := answers || held::int;
  end loop;
  return array_to_json(answers)::text;
end $$;

-- Ends attempts of one name wherever they are. Parameters: name, JSON [attempt, ...], µs for which a request of them may still arrive and
-- is to be refused (0: none can), 1 = no notifications. Answer: how many held or waited.
create or replace function S.holdfast_cancel_v1(_name text, _attempts text, _ghost bigint, _quiet int)
returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); l S.holdfast_locks; was S.holdfast_locks; _attempt text; token bigint;
  were_here int := 0; n int := 0;
  attempts text[] := array(select value from json_array_elements_text(_attempts::json));
begin
  l := S.holdfast_row_v1(_name, _ghost > 0);
  if l.name is null then return '0'; end if;
  was := l;
  now := S.holdfast_now_v1();
  l := S.holdfast_bring_v1(l, now, _quiet);
  if l.line then
    delete from S.holdfast_waiters q where q.name = _name and q.attempt = any (attempts);
    get diagnostics were_here = row_count;
  end if;
  foreach _attempt in array attempts loop
    token := S.holdfast_held_v1(l, _attempt);
    if token is not null then
      l := S.holdfast_leave_v1(l, _attempt, token);
      were_here := were_here + 1;
    end if;
    n := n + 1;
    if n > cardinality(attempts) - 8 then l := S.holdfast_remember_v1(l, _attempt); end if;
  end loop;
  if _ghost > 0 then
    delete from S.holdfast_ghosts g where g.name = _name and g.until < now;
    insert into S.holdfast_ghosts select _name, a, now + _ghost from unnest(attempts) a
      on conflict (name, attempt) do update set until = excluded.until;
  end if;
  l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
  perform S.holdfast_save_v1(was, l, now);
  return were_here::text;
end $$;

-- Exclusive to shared in one step. Parameters: name, attempt, last token used, 1 = no notifications.
-- Answer: the token as it is now, 0 when not held so.
create or replace function S.holdfast_downgrade_v1(_name text, _attempt text, _last bigint, _quiet int)
returns text language plpgsql as $$
declare now bigint := S.holdfast_begin_v1(); l S.holdfast_locks; was S.holdfast_locks; answer bigint := 0;
begin
  l := S.holdfast_row_v1(_name, false);
  if l.name is null then return '0'; end if;
  was := l;
  now := S.holdfast_now_v1();
  l := S.holdfast_bring_v1(l, now, _quiet);
  if l.kind = 's' then answer := coalesce(S.holdfast_held_v1(l, _attempt), 0); end if;
  if l.kind = 'x' and l.owner = _attempt then
    answer := least(greatest(_last, l.token), l.up_to);
    insert into S.holdfast_holds (name, attempt, kind, take, token, ttl, since, expires, channel, holder, note)
      values (l.name, _attempt, 's', 1, answer, l.ttl, l.since, l.expires, l.channel, l.holder, l.note);
    l := S.holdfast_free_v1(l);
    l.kind := 's'; l.token := answer; l.up_to := answer;
    l := S.holdfast_count_v1(l);
  end if;
  l := S.holdfast_advance_v1(l, '', 0, now, _quiet);
  perform S.holdfast_save_v1(was, l, now);
  return answer::text;
end $$;
`
