-- Keep what a receipt of take() holds for so long from now on; returns until when. c_offset: of that event only.
-- Raises GL400 for a visibility that is not above zero, or infinite; GL003 when the receipt counts no more.
create or replace function gapless.extend(
  group_id text, topic text, receipt text, visibility interval default '60 s', c_offset bigint default null
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_variable
declare
  until_ts timestamptz := clock_timestamp()
    + make_interval(secs => gapless.require_interval('visibility', visibility, false));
  held record;
begin
  select r.* into held from gapless.read_receipt(group_id, topic, receipt) r;
  if held.kind = 'L' then
    update gapless.dead_letter d set next_attempt_ts = until_ts
    where d.group_id = extend.group_id and d.topic_id = held.topic_id and d.partition_id = held.partition_id
      and d.first_offset = held.first_offset and d.token = held.token and coalesce(d.state, '') = 'waiting';
  else
    perform gapless.lock_taken(held.lease_no, held.first_offset, held.last_offset, held.token, c_offset);
    update gapless.queue_range r set deadline = until_ts
    where r.lease_no = held.lease_no and r.token = held.token
      and r.first_offset between coalesce(c_offset, held.first_offset) and coalesce(c_offset, held.last_offset);
  end if;
  if not found then
    perform gapless.refuse_receipt(group_id, topic);
  end if;
  return until_ts;
end
$$;
