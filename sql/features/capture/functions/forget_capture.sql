-- Delete a capture whose triggers are gone, and audit its end. A part of release_capture().
-- Refuses one that has triggers: writes to their table would fail (capture_rows.sql).
create or replace function gapless.forget_capture(_capture_id int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  gone gapless.captured;
begin
  if exists (select from gapless.capture_triggers() t where t.capture_id = _capture_id) then
    raise exception 'capture % has triggers: gapless capture remove drops them, then forgets it', _capture_id
      using errcode = 'GL409';
  end if;
  delete from gapless.captured c where c.capture_id = _capture_id returning c.* into gone;
  if found then
    insert into gapless.audit (action, group_id, topic_id, detail)
    values ('release-capture', '', gone.topic_id, jsonb_build_object('table', gone.table_name));
  end if;
end
$$;
