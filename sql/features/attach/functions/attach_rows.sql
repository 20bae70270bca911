-- The trigger of attached tables: publish the rows of a statement, in its transaction. Its argument: the number of the
-- attachment.
-- An error here never affects the table's writers: rows that cannot be published are noted (attached_miss), and
-- mend_attachment() publishes them later.
-- security definer: writers need no right on gapless. So the search path is fixed, and the format of keys and payloads
-- does not depend on the writer's session: one row, one key (I4).
-- MUST stay dynamic: a kept plan would be of the table as it was before an ALTER TABLE.
create or replace function gapless.attach_rows() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres' set bytea_output = 'hex'
set extra_float_digits = 1 as $$
declare
  made gapless.attached;
  said text;
begin
  perform from new_rows limit 1;
  if not found then
    return null;
  end if;
  begin
    select a.* into made from gapless.attached a where a.attachment_id = tg_argv[0]::int;
    if made.attachment_id is null then
      raise warning '%.% is attached, but its topic is not known any more: gapless attach add it anew, or drop its '
        'trigger gapless_attach', tg_table_schema, tg_table_name;
      return null;
    end if;
    made := gapless.attached_now(made, tg_relid);
    execute gapless.attach_statement(made, tg_relid, 'new_rows r', false);
  exception
    when others then
      said := sqlerrm;
  end;
  if said is not null then
    insert into gapless.attached_miss (attachment_id, rows, error)
    select tg_argv[0]::int, count(*), said from new_rows;
  end if;
  return null;
exception
  when others then
    raise warning '%.%: inserted rows are not in the log, and could not be noted: %',
      tg_table_schema, tg_table_name, sqlerrm;
    return null;
end
$$;
