-- Stop publishing the changes of a table; published events stay. False: it is not captured.
--   select gapless.release_capture('public.orders');
-- A dropped table has the name that gapless.captures shows. Runs with the rights of the caller: the table's owner.
create or replace function gapless.release_capture(source text) returns boolean
language plpgsql as $$
declare
  number int;
  root oid := gapless.table_of(release_capture.source);
  found_in name;
  found_on name;
  found_trigger name;
begin
  if root is null then
    select c.capture_id into number from gapless.captures c
    where c.table_name = release_capture.source and c.table_id is null;
    if number is null then
      raise exception 'there is no table "%": name it as SQL does, schema and all; gapless capture lists them',
        release_capture.source
        using errcode = 'GL404';
    end if;
  else
    number := gapless.capture_of(root);
  end if;
  if number is null then
    return false;
  end if;
  for found_in, found_on, found_trigger in
    select n.nspname, r.relname, t.tgname
    from gapless.capture_triggers() t
    join pg_class r on r.oid = t.tgrelid
    join pg_namespace n on n.oid = r.relnamespace
    where t.capture_id = number
    order by t.tgrelid, t.tgname
  loop
    execute format('drop trigger %I on %I.%I', found_trigger, found_in, found_on);
  end loop;
  perform gapless.forget_capture(number);
  return true;
end
$$;
