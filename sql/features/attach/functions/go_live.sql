-- Copy the last rows of an attached table and create its trigger, while writers are locked out: so the log gets all
-- present rows, in the order of their ids, then all new ones (I1, I4). False: more than _rows are left; roll back, and
-- copy on. Notes the present names of its columns, unless one is gone: another may have its name by now.
-- lock: the table in share row exclusive mode: it waits for writers, and they wait for it. With the caller's rights.
create or replace function gapless.go_live(_attachment_id int, _rows int) returns boolean
language plpgsql as $$
declare
  made gapless.attached;
begin
  perform from gapless.attached a where a.attachment_id = _attachment_id for update;
  made := gapless.require_attachment(_attachment_id);
  update gapless.attached a
  set table_id = made.table_id, id_column = made.id_column, map = made.map,
    column_numbers = gapless.attached_numbers(made)
  where a.attachment_id = _attachment_id and not exists (
    select from gapless.attached_columns(a, made.table_id) c where c.name is not null and c.now is null
  );
  if made.live_ts is not null and exists (
    select from gapless.attach_triggers() t
    where t.attachment_id = _attachment_id and t.tgrelid = made.table_id and t.tgenabled in ('O', 'A')
  ) then
    return true;
  end if;
  execute format('lock table only %s in share row exclusive mode', made.table_id::regclass);
  if gapless.copy_attached(_attachment_id, 9223372036854775807, _rows + 1) > _rows then
    return false;
  end if;
  perform gapless.place_attach_trigger(_attachment_id, made.table_id);
  update gapless.attached a
  set live_ts = coalesce(a.live_ts, clock_timestamp())
  where a.attachment_id = _attachment_id;
  return true;
end
$$;
