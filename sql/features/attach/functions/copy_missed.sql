-- Publish the missing rows of an attached table: those that its trigger could not publish, those that were written
-- without the trigger, those that got a low id late. Returns the number of rows. Their events come behind the earlier
-- ones. A row whose event is not yet committed is not seen, nor is its attached_row: none is published twice. A noted
-- row that is not found is noted as that, until the next call: it was deleted, or its id had been published.
create or replace function gapless.copy_missed(_attachment_id int) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
set row_security = off set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres'
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  made gapless.attached;
  -- MUST be read before the rows are: for a note that is seen here its rows are seen there.
  noted bigint[] := array(select m.miss_no from gapless.attached_miss m where m.attachment_id = _attachment_id);
  copied bigint;
  lacking bigint;
  no_place text;
  not_found constant text := 'not in the table any more, or of an id that was published before: copy such by hand; '
    'gapless attach mend once more forgets this';
begin
  perform from gapless.attached a where a.attachment_id = _attachment_id for update;
  made := gapless.require_attachment(_attachment_id);
  execute gapless.attach_statement(
    made, made.table_id,
    format(
      'only %2$s r where r.%1$I is not null and not exists (select from gapless.attached_row w '
      'where w.attachment_id = %3$L and w.source_id = r.%1$I)', made.id_column, made.table_id::regclass, _attachment_id
    ), true
  );
  get diagnostics copied = row_count;
  no_place := format('rows without "%s" have no place in the order', made.id_column);
  execute format('select count(*) from only %2$s r where r.%1$I is null', made.id_column, made.table_id::regclass)
    into lacking;
  with gone as (
    delete from gapless.attached_miss m where m.miss_no = any (noted)
    returning m.rows, m.error
  )
  insert into gapless.attached_miss (attachment_id, rows, error)
  select _attachment_id, sum(g.rows) - copied - lacking, not_found
  from gone g
  where g.error not in (not_found, no_place)
  having sum(g.rows) > copied + lacking;
  if lacking > 0 then
    insert into gapless.attached_miss (attachment_id, rows, error) values (_attachment_id, lacking, no_place);
  end if;
  return copied;
end
$$;
