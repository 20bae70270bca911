-- A table and all its partitions, with how deep each lies. Takes no lock, as pg_partition_tree() would: status asks
-- this, and must not wait for whoever alters a table.
create or replace function gapless.captured_tables(_root oid)
returns table (relid oid, level int)
language sql
stable
as $$
  with recursive tree (relid, level) as (
    select _root, 0
    union all
    select i.inhrelid, t.level + 1
    from tree t
    join pg_inherits i on i.inhparent = t.relid
    join pg_class r on r.oid = i.inhrelid and r.relispartition
  )
  select t.relid, t.level from tree t
$$;
