-- acknowledge_receipt() for workers: the events of each receipt from one offset to another, both inclusive, all or
-- none. If they are all events of a range, as in most calls, this is one UPDATE. Raises GL003 when a receipt is no
-- longer valid (Q2).
-- locks: the rows of queue_range until the transaction ends; waits for a session that takes them over at this moment
-- index: queue_range_pkey
create or replace function gapless.acknowledge_runs(_receipts text[], _first_offsets bigint[], _last_offsets bigint[])
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  part text[];
begin
  for n in 1 .. cardinality(_receipts) loop
    part := string_to_array(_receipts[n], ':');
    if part[1] like 'R%' then
      update gapless.queue_range r set token = null, deadline = null, holder = session_user
      where r.lease_no = substr(part[1], 2)::int and r.first_offset = _first_offsets[n]
        and r.last_offset = _last_offsets[n] and r.token = part[4]::uuid;
      continue when found;
    end if;
    perform gapless.acknowledge_receipt(_receipts[n], o.c_offset)
    from generate_series(_first_offsets[n], _last_offsets[n]) as o (c_offset);
  end loop;
end
$$;
