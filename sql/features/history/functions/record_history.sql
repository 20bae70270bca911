-- Record the present minute of all groups and topics, unless that was done; return the number of rows that changed. The
-- active sequencer's process calls it each minute; clients that sequence by themselves may do so, too.
-- keep_hours: how long minutes are kept; 0: none is, and those that were kept are deleted. Raises 42501 for less than
-- 24 hours, and less than is kept already, of a role that may not drop a group.
create or replace function gapless.record_history(keep_hours int default 72) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  said text := current_setting('role');
  caller name := case said when 'none' then session_user else said end;
begin
  if keep_hours < 24 and keep_hours < (select coalesce(s.keep_hours, 24) from gapless.history_state s)
    and not has_function_privilege(caller, 'gapless.drop_group(text)', 'execute') then
    raise exception 'role % may not delete the history of the last 24 hours: historyHours is %; let an operator call'
      ' gapless.record_history(%) once', quote_ident(caller), keep_hours, keep_hours
      using errcode = 'insufficient_privilege';
  end if;
  return gapless.record_history_at(clock_timestamp(), keep_hours);
end
$$;
