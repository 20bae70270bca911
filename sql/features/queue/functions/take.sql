-- Take events of a queue group, in any language; no other worker gets them during the visibility time. Answer for each
-- with acknowledge(), release() or reject(), or keep it longer with extend().
--   select * from gapless.take('sender', 'mails', max_events => 10, visibility => '60 s');
-- Returns no row when there is no event. attempt: the number of this delivery, from 1. Events that were taken together
-- share a receipt; those of a unit that was set aside have another. Returns at most max_events, and at most one block
-- of the group. A partition before a hole returns no event; a notice says so when the other partitions have none
-- either. Call it in a transaction of its own: until it commits, other workers wait for these events.
-- Raises GL404 for an unknown group or topic, GL409 for an ordered group, GL400 for a value that is out of range.
create or replace function gapless.take(
  group_id text, topic text, max_events int default 1, visibility interval default '60 s'
) returns table (
  receipt text, partition_id int, c_offset bigint, attempt int, key text, event_type text, payload json,
  headers jsonb, host_id text, user_id text, transaction_id uuid, created_ts timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id(topic);
  crashes_max int;
  is_direct boolean;
begin
  if (max_events between 1 and 10000) is not true then
    raise exception 'max_events is from 1 to 10000, not %', coalesce(max_events::text, 'null')
      using errcode = 'GL400';
  end if;
  perform gapless.require_interval('visibility', visibility, false);
  select g.max_crashes, t.direct into crashes_max, is_direct
  from gapless.consumer_group g
  join gapless.topic t on t.topic_id = g.topic_id
  where g.group_id = take.group_id and g.topic_id = wanted and g.mode = 'queue';
  if not found then
    perform gapless.require_queue(take.group_id, wanted);
  end if;
  if is_direct then
    return query
    select d.* from gapless.take_direct(take.group_id, wanted, max_events, visibility, crashes_max) d;
  else
    return query
    select r.receipt, r.partition_id, r.c_offset, r.attempts + r.crashes, r.key, r.event_type, r.payload,
      r.headers, r.host_id, r.user_id, coalesce(r.transaction_id, gapless.transaction_uuid(r.xid, r.timeline)),
      r.created_ts
    from gapless.reserve(
      take.group_id, wanted, null, max_events, visibility, session_user::text, 'any', crashes_max
    ) r;
  end if;
end
$$;
