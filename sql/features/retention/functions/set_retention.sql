-- Set the time for which a topic keeps its events, in seconds (null: forever); the pipeline that has to have archived
-- them first (null: none); and the groups for which retention does not wait. The settings count from now on, also for
-- present events.
-- Raises GL404 for an unknown group, unless the topic names it already.
create or replace function gapless.set_retention(topic text, keep_s double precision, archive text, overrun text[])
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  stranger text;
begin
  if set_retention.keep_s <= 0 then
    raise exception 'topic "%": retention must be more than nothing', topic using errcode = 'GL400';
  end if;
  select x into stranger
  from unnest(set_retention.overrun) x
  where x not like 'pipeline.%' and not exists (select from gapless.consumer_group g where g.group_id = x)
    and not exists (
      select from gapless.topic t where t.topic_id = gapless.topic_id(set_retention.topic) and x = any (t.overrun)
    )
  limit 1;
  if stranger is not null then
    raise exception 'there is no group "%", which retention need not wait for: gapless groups lists them', stranger
      using errcode = 'GL404';
  end if;
  update gapless.topic t
  -- Seconds alone: days and months have no fixed length.
  set retention = make_interval(secs => set_retention.keep_s), archive = set_retention.archive,
    overrun = set_retention.overrun
  where t.topic_id = gapless.topic_id(set_retention.topic);
end
$$;
