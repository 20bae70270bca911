-- Wait until these groups, one behind the other, have handled a published transaction and the events that it caused, or
-- have put them aside for good. Returns the state that gapless.chain_state() gives then, or when the time is over, or
-- when waiting cannot help.
--   select * from gapless.wait_through(array['billing', 'shipping'], gapless_transaction_id, '5 s');
-- Call it outside the publishing transaction, under READ COMMITTED. It looks every 2 to 50 ms.
create or replace function gapless.wait_through(
  groups text[], transaction_id uuid, timeout interval default '10 s',
  out state text, out group_id text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  give_up timestamptz := clock_timestamp() + timeout;
  pause_s double precision := 0.002;
begin
  if timeout is null then    -- or it would never give up
    raise exception 'to wait needs a timeout' using errcode = 'GL400';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'to wait needs READ COMMITTED, not %: it would never see the group continue',
      upper(current_setting('transaction_isolation'))
      using errcode = 'GL409';
  end if;
  if gapless.xid_of(transaction_id) = pg_current_xact_id_if_assigned()
    and gapless.timeline_of(transaction_id) = gapless.timeline()
  then
    raise exception 'commit first: this transaction cannot wait for itself' using errcode = 'GL409';
  end if;
  loop
    select s.state, s.group_id into state, group_id
    from gapless.chain_state(groups, transaction_id) s;
    if state in ('handled', 'dead', 'skipped', 'elsewhere', 'rolled-back')
      or clock_timestamp() not between give_up - timeout and give_up    -- before it: the clock was put back
    then
      return;
    end if;
    perform pg_sleep(least(pause_s, extract(epoch from give_up - clock_timestamp())));
    pause_s := least(pause_s * 1.5, 0.05);
  end loop;
end
$$;
