-- Count the matching (kept_offsets) and passed events of a claim of `events` events, for a group with this filter;
-- filter_errors, as long as kept_offsets: why it could not be evaluated for some of them (null: none). Another filter
-- begins anew.
-- locks: the tally's row of this partition, until the transaction ends: the claim has the partition anyway
create or replace function gapless.tally_filter(
  _group_id text, _topic_id int, _partition_id int, _filter int, _events bigint, _kept_offsets bigint[],
  _filter_errors text[]
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  asked_in_vain record;    -- how many; the last of them
begin
  select count(*) as events, max(e.c_offset) as c_offset,
    left((array_agg(e.why order by e.c_offset desc))[1], 200) as why,
    case when count(*) > 0 then clock_timestamp() end as ts
  into asked_in_vain
  from unnest(_kept_offsets[1 : cardinality(_filter_errors)], _filter_errors) as e (c_offset, why)
  where e.why is not null;
  update gapless.filter_tally t
  set kept = t.kept + cardinality(_kept_offsets),
    passed = t.passed + _events - cardinality(_kept_offsets),
    unasked = t.unasked + asked_in_vain.events,
    unasked_offset = coalesce(asked_in_vain.c_offset, t.unasked_offset),
    unasked_why = coalesce(asked_in_vain.why, t.unasked_why),
    unasked_ts = coalesce(asked_in_vain.ts, t.unasked_ts)
  where t.filter_no = _filter and t.ctid = (    -- the newest version, as offset_row()
      select x.ctid from gapless.filter_tally x
      where x.group_id = _group_id and x.topic_id = _topic_id and x.partition_id between _partition_id and _partition_id
      order by x.partition_id desc limit 1
    );
  if found then
    return;
  end if;
  insert into gapless.filter_tally as t (
    group_id, topic_id, partition_id, filter_no, kept, passed, unasked, unasked_offset, unasked_why, unasked_ts
  )
  values (
    _group_id, _topic_id, _partition_id, _filter, cardinality(_kept_offsets),
    _events - cardinality(_kept_offsets), asked_in_vain.events, asked_in_vain.c_offset, asked_in_vain.why,
    asked_in_vain.ts
  )
  on conflict (group_id, topic_id, partition_id) do update
  set filter_no = excluded.filter_no, kept = excluded.kept, passed = excluded.passed,
    unasked = excluded.unasked, unasked_offset = excluded.unasked_offset,
    unasked_why = excluded.unasked_why, unasked_ts = excluded.unasked_ts;
end
$$;
