-- Return a table and all its partitions, with the depth of each. Unlike pg_partition_tree() it takes no lock: status
-- calls it, and must not wait for a session that alters a table.
create or replace function gapless.captured_tables(_root oid) returns table (relid oid, level int)
language sql stable as $$
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
