-- Return the statement for a TRUNCATE: an event in each partition of the topic, since each had some of the rows.
-- TRUNCATE of a partitioned table truncates its partitions, too, and their own triggers name them. A part of
-- capture_statement().
create or replace function gapless.truncate_statement(_topic_id int, _root oid, _table oid) returns text
language plpgsql stable as $$
declare
  spread int := coalesce((select t.partitions from gapless.topic t where t.topic_id = _topic_id), 1);
begin
  return format(
    'select %s, k, ''truncate'', json_build_object(''op'', ''truncate'', ''new'', null, ''old'', null%s)'
    || ' from unnest(gapless.keys_of_partitions(%s)) with ordinality u (k, n) order by u.n',
    _topic_id,
    case
      when _table <> _root then format(', ''partition'', %L', (
        select format('%I.%I', n.nspname, r.relname)
        from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = _table
      ))
      else ''
    end,
    spread
  );
end
$$;
