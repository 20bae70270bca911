-- Replay: a scratch group handles a range of a topic once. It has no members and no plan: a running replay takes
-- partitions one by one, by their advisory lock and their fence. It neither lags nor holds retention, and no other
-- group's offset moves.

-- Create a scratch group over a range: from (one of them, inclusive; all null: the oldest event) to (one of them,
-- exclusive; both null: the end as it is now). Returns the number of events in it.
-- Raises as seek_plan(), and GL409 when there is such a group.
create or replace function gapless.create_replay(
  _group_id text, _topic text, _partition_id int default null,
  _from_end text default null, _from_offset bigint default null, _from_time timestamptz default null,
  _to_offset bigint default null, _to_time timestamptz default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(_topic);
  events bigint;
begin
  if exists (select from gapless.consumer_group g where g.group_id = _group_id) then
    raise exception 'there is a group "%" already: choose another name, or continue with it (--continue)',
      _group_id
      using errcode = 'GL409';
  end if;
  perform gapless.create_group(_group_id, _topic);
  update gapless.consumer_group g set is_scratch = true where g.group_id = _group_id;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  set next_offset = p.new_offset, start_offset = p.new_offset,
    stop_offset = greatest(p.new_offset, case
      when _partition_id <> c.partition_id then p.new_offset
      when _to_time is not null
        then gapless.offset_since(wanted, c.partition_id, _to_time)
      else least(e.end_offset, coalesce(_to_offset, e.end_offset))
    end)
  from gapless.seek_plan(
    _group_id, _topic,
    to_end => case
      when num_nonnulls(_from_end, _from_offset, _from_time) = 0 then 'earliest' else _from_end
    end,
    to_offset => _from_offset, to_time => _from_time
  ) p
  cross join lateral gapless.log_ends(wanted, p.partition_no) e
  where c.group_id = _group_id and c.topic_id = wanted
    and c.partition_id = p.partition_no;
  select sum(c.stop_offset - c.start_offset) into events
  from gapless.consumer_offsets c where c.group_id = _group_id;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values ('replay', _group_id, wanted, jsonb_build_object('events', events));
  return events;
end
$$;
