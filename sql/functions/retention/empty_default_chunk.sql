-- Empty the default chunk once all that is in it is dropped; returns whether it was done.
-- Raises 55P03 when somebody has it locked.
create or replace function gapless.empty_default_chunk()
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  gone_upto bigint := (select s.dropped_upto from gapless.retention_state s);
begin
  perform gapless.require_read_committed('empty_default_chunk');
  if (select max(o.id) < gone_upto from gapless.outbox_message_default o) is not true then
    return false;
  end if;
  lock table gapless.outbox_message_default in access exclusive mode;
  -- MUST be looked at again: whoever was publishing into it has committed.
  if (select max(o.id) < gone_upto from gapless.outbox_message_default o) is not true then
    return false;
  end if;
  truncate gapless.outbox_message_default;
  return true;
end
$$;
