-- The trigger of captured tables: publish the rows of a statement, in its transaction. Its arguments: the number of the
-- capture; 'partition' where it is on a partition. docs/use/capture.md describes the events.
-- security definer: writers need no right on gapless. So the search path is fixed, and the format of keys and payloads
-- does not depend on the writer's session: one row, one key (I4).
-- MUST stay dynamic: a kept plan would be of the table as it was before an ALTER TABLE.
create or replace function gapless.capture_rows() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres' set bytea_output = 'hex'
set extra_float_digits = 1 as $$
declare
  publication text;
begin
  if tg_argv[1] = 'partition' and coalesce(pg_partition_root(tg_relid), tg_relid) = tg_relid then
    return null;    -- it was detached
  end if;
  if tg_op = 'DELETE' then
    perform from old_rows limit 1;
  elsif tg_op <> 'TRUNCATE' then
    perform from new_rows limit 1;
  end if;
  if tg_op <> 'TRUNCATE' and not found then
    return null;
  end if;
  publication := gapless.capture_statement(tg_argv[0]::int, tg_relid, tg_op);
  if publication is null then
    raise exception '%.% is captured, but its topic is not known any more: %', tg_table_schema, tg_table_name,
      'drop its triggers gapless_capture_*, or gapless capture add it anew'
      using errcode = 'GL404';
  end if;
  execute publication;
  return null;
end
$$;
