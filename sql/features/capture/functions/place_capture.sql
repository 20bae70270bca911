-- Create the four triggers of a capture on a table and on each of its partitions, where they are missing or disabled,
-- or belong to another capture. Returns their number. With the rights of the caller.
-- On partitions too, because a statement fires the triggers of the table that it names, and of no other.
create or replace function gapless.place_capture(_capture_id int, _root oid) returns int
language plpgsql as $$
declare
  operation text;
  placed int := 0;
  each record;
  here record;
begin
  for each in
    select r.oid as id, n.nspname, r.relname, r.oid <> _root as is_part
    from gapless.captured_tables(_root) t
    join pg_class r on r.oid = t.relid
    join pg_namespace n on n.oid = r.relnamespace
    order by t.level, r.oid
  loop
    foreach operation in array array['insert', 'update', 'delete', 'truncate'] loop
      select t.capture_id, t.on_partition, t.tgenabled into here from gapless.capture_triggers() t
      where t.tgrelid = each.id and t.tgname = 'gapless_capture_' || operation;
      if here.capture_id = _capture_id and here.on_partition = each.is_part then
        continue when here.tgenabled in ('O', 'A');
        execute format(
          'alter table only %I.%I enable trigger %I', each.nspname, each.relname, 'gapless_capture_' || operation
        );
      else
        perform gapless.place_trigger(
          each.nspname, each.relname, operation, here.tgenabled is not null,
          _capture_id::text, case when each.is_part then 'partition' else 'table' end
        );
      end if;
      placed := placed + 1;
    end loop;
  end loop;
  return placed;
end
$$;
