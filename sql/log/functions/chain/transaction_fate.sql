-- Return the fate of a transaction without events, by its xid: 'open', 'rolled-back', else 'unknown'.
create or replace function gapless.transaction_fate(_transaction_id uuid) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  if gapless.timeline_of(_transaction_id) <> gapless.timeline() then
    return 'unknown';    -- that xid is another transaction's now
  end if;
  return case pg_xact_status(gapless.xid_of(_transaction_id))
    when 'in progress' then 'open'
    when 'aborted' then 'rolled-back'
    else 'unknown'
  end;
exception when invalid_parameter_value then    -- an xid that no transaction has had yet
  return 'unknown';
end
$$;
