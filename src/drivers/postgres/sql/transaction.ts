/** The lock that lives in the user's own transaction. This lock and the strategy `session` exclude each other. */
export const transactionFunctions = `
-- Parameters: name (after U+0001), key of the advisory lock, kind x|s, ms to wait (0: try). Answer: ["granted", token] ·
-- ["busy", holder or null] · ["isolation", level]. Leaves the transaction as it was unless granted: the exception block is a
-- subtransaction, and lock_timeout is put back.
create or replace function S.holdfast_transaction_v1(_name text, _key bigint, _kind text, _wait int) returns text
language plpgsql as $$
declare before text := current_setting('lock_timeout'); taken boolean := true; token bigint; now bigint;
begin
  -- Its snapshot is taken before it waits: what it then reads is older than the lock.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    return json_build_array('isolation', current_setting('transaction_isolation'))::text;
  end if;
  begin
    if _wait = 0 then
      taken := case _kind when 'x' then pg_try_advisory_xact_lock(_key) else pg_try_advisory_xact_lock_shared(_key) end;
    else
      perform set_config('lock_timeout', _wait::text, true);
      if _kind = 'x' then perform pg_advisory_xact_lock(_key); else perform pg_advisory_xact_lock_shared(_key); end if;
      perform set_config('lock_timeout', before, true);
    end if;
  exception when lock_not_available then
    taken := false;
  end;
  if not taken then
    return json_build_array('busy', (select json_build_array(o.attempt, o.kind, 1, 1, o.token, S.holdfast_now_v1() - o.since, null,
      o.holder, o.note) from S.holdfast_holds o where o.name = _name and S.holdfast_alive_v1(o) order by o.token limit 1))::text;
  end if;
  now := S.holdfast_now_v1();
  if _kind = 's' then
    -- Not written: the row would keep the other readers out until the commit.
    token := greatest(now, 1 + (select k.up_to from S.holdfast_locks k where k.name = _name));
    return json_build_array('granted', token)::text;
  end if;
  insert into S.holdfast_locks as k (name, up_to, used) values (_name, now, now)
    on conflict (name) do update set up_to = greatest(k.up_to + 1, now), used = now
    returning k.up_to into token;
  return json_build_array('granted', token)::text;
end $$;
`
