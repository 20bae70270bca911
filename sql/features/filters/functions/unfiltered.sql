-- Return consumer_offsets.filter_no for a group without a filter: 0, or -1 where events may be for one group.
create or replace function gapless.unfiltered(_topic_id int) returns int
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select case when t.direct then -1 else 0 end from gapless.topic t where t.topic_id = _topic_id
$$;
