-- How long a topic keeps its events, in seconds (null: forever); the pipeline that has to have archived
-- them first (null: none); the groups that need not have handled them. Counts from now on, also for
-- what is there.
create or replace function gapless.set_retention(
  topic text, keep_s double precision, archive text, overrun text[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if set_retention.keep_s <= 0 then
    raise exception 'topic "%": retention must be more than nothing', topic using errcode = 'GL400';
  end if;
  update gapless.topic t
  -- Seconds alone: days and months have no fixed length.
  set retention = make_interval(secs => set_retention.keep_s), archive = set_retention.archive,
    overrun = set_retention.overrun
  where t.topic_id = gapless.topic_id(set_retention.topic);
end
$$;
