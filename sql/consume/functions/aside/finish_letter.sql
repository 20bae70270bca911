-- Declare a claimed unit handled; the caller's next statement is COMMIT. Returns false when this is no longer the
-- transaction that claimed it. Units that are parked behind it follow. A dead unit stays as 'redriven'; a waiting one
-- leaves no row.
create or replace function gapless.finish_letter(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _claim_xid text
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
begin
  if pg_current_xact_id_if_assigned()::text is distinct from _claim_xid then
    return false;
  end if;
  perform gapless.close_letter(_group_id, _topic_id, _partition_id, _first_offset);
  return gapless.finish_units(_claim_xid, 1);
end
$$;
