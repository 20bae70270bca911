-- The units that were set aside and meet all conditions; null: any value. key, event_type: of one of their events.
-- plan: inlined, so it sets no search_path and says where functions are: its conditions join those of the caller.
create or replace function gapless.find_letters(
  _group_id text, _topic text, _partition_id int, _states text[], _since_ts timestamptz, _age interval,
  _until_ts timestamptz, _error text, _error_form text, _key text, _event_type text
) returns setof gapless.dead_letter
language sql stable as $$
  select d.*
  from gapless.dead_letter d
  where (_group_id is null or d.group_id = _group_id)
    and (_topic is null or d.topic_id = (select t.topic_id from gapless.topic t where t.name = _topic))
    and (_partition_id is null or d.partition_id = _partition_id)
    and (_states is null or d.state = any (_states))
    and (_since_ts is null or d.last_failed_ts >= _since_ts)
    and (_age is null or d.last_failed_ts >= pg_catalog.now() - _age)
    and (_until_ts is null or d.last_failed_ts < _until_ts)
    and (
      _error is null
      or pg_catalog.strpos(
        pg_catalog.lower(d.reason || pg_catalog.chr(10) || d.exception), pg_catalog.lower(_error)
      ) > 0
    )
    and (_error_form is null or d.error_form = _error_form)
    and (
      _key is null and _event_type is null
      or exists (
        select from gapless.dead_letter_event k
        where k.group_id = d.group_id and k.topic_id = d.topic_id and k.partition_id = d.partition_id
          and k.c_offset between d.first_offset and d.last_offset
          and (_key is null or coalesce(k.key, k.host_id) = _key)
          and (_event_type is null or k.event_type = _event_type)
      )
    )
$$;
