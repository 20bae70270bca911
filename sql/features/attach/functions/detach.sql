-- Stop copying an attached table, and forget which events its ids became; events and groups stay. False: not attached.
--   select gapless.detach('public.outbox');
-- A dropped table has the name that gapless.attachments shows. Runs with the rights of the caller: the table's owner.
create or replace function gapless.detach(source text) returns boolean
language plpgsql as $$
declare
  root oid := gapless.table_of(detach.source);
  gone gapless.attached;
  number int := gapless.attachment_of(root);
begin
  if root is null then
    select a.attachment_id into number from gapless.attachments a
    where a.table_name = detach.source and a.table_id is null;
    if number is null then
      raise exception 'there is no table "%": name it as SQL does, schema and all; gapless attach lists them',
        detach.source
        using errcode = 'GL404';
    end if;
  end if;
  if number is null then
    return false;
  end if;
  if exists (select from gapless.attach_triggers() t where t.attachment_id = number and t.tgrelid = root) then
    execute format('drop trigger gapless_attach on %s', root::regclass);
  end if;
  delete from gapless.attached a where a.attachment_id = number returning a.* into gone;
  delete from gapless.attached_row r where r.attachment_id = number;
  delete from gapless.attached_miss m where m.attachment_id = number;
  perform gapless.note_attach('detach', gone.topic_id, gone.table_name, null);
  return true;
end
$$;
