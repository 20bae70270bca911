-- Create the trigger of an attachment on its table, or enable it; a part of go_live(), with the caller's rights.
create or replace function gapless.place_attach_trigger(_attachment_id int, _table oid) returns void
language plpgsql as $$
declare
  here record;
begin
  select t.attachment_id, t.tgenabled into here from gapless.attach_triggers() t
  where t.tgrelid = _table and t.tgname = 'gapless_attach';
  if here.attachment_id = _attachment_id then
    if here.tgenabled not in ('O', 'A') then
      execute format('alter table only %s enable trigger gapless_attach', _table::regclass);
    end if;
    return;
  elsif here.tgenabled is not null then
    execute format('drop trigger gapless_attach on %s', _table::regclass);
  end if;
  execute format(
    'create trigger gapless_attach after insert on %s referencing new table as new_rows '
    'for each statement execute function gapless.attach_rows(%L)', _table::regclass, _attachment_id::text
  );
end
$$;
