-- Move a pipeline to the beginning or the end of the log; the caller holds its run lock. gapless.audit has a seek for
-- each of its topics. Raises GL409 while a batch's files are being moved.
create or replace function gapless.reset_pipeline(_name text, _goal text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update gapless.pipeline p set batch = p.batch + 1, error = null, failing_ts = null
  where p.name = _name and p.planned is null;
  if not found then
    raise exception 'pipeline % has a batch whose files are on their way: run it with --once first', _name
      using errcode = 'GL409';
  end if;
  perform gapless.hold_start(array(
    select g.topic_id from gapless.consumer_group g
    where g.group_id = 'pipeline.' || _name
  ));
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  set next_offset = case _goal when 'latest' then e.next_offset else e.first_offset end
  from gapless.topic t
  cross join lateral gapless.ends(array[t.name]) e
  where c.group_id = 'pipeline.' || _name and c.topic_id = t.topic_id
    and e.partition_id = c.partition_id;
  -- It meets their events again in the log.
  perform gapless.forget_letters(c.group_id, c.topic_id, c.partition_id, c.next_offset)
  from gapless.consumer_offsets c
  where c.group_id = 'pipeline.' || _name;
  insert into gapless.audit (action, group_id, topic_id, detail)
  select 'seek', g.group_id, g.topic_id, jsonb_build_object('to', _goal)
  from gapless.consumer_group g
  where g.group_id = 'pipeline.' || _name;
  update gapless.pipeline p set begun = gapless.pipeline_place(p.name)
  where p.name = _name;
end
$$;
