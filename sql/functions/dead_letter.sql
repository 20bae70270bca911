-- Put the events of one failed unit into the dead letter queue, in the caller's transaction (I9).
-- message_ids are its events in offset order, the first of them at first_offset. The payloads are
-- copied inside the server. Returns how many rows were written; fewer than asked for is an error.
create or replace function gapless.dead_letter(
  group_id text, topic_id int, partition_id int, first_offset bigint, message_ids bigint[],
  exception text, sqlstate text default null, attempts int default 1
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
declare
  written int;
begin
  insert into gapless.dead_letter_queue as d (
    group_id, topic_id, partition_id, c_offset, message_id, host_id, user_id, key, transaction_id,
    event_type, payload, headers, created_ts, exception, sqlstate, attempts
  )
  select
    dead_letter.group_id, dead_letter.topic_id, dead_letter.partition_id,
    dead_letter.first_offset + u.n - 1, o.id, o.host_id, o.user_id, o.key,
    coalesce(o.transaction_id, gapless.transaction_uuid(o.xid)),
    o.event_type, o.payload, o.headers, o.created_ts,
    dead_letter.exception, dead_letter.sqlstate, dead_letter.attempts
  from unnest(dead_letter.message_ids) with ordinality as u (id, n)
  -- OFFSET 0: one look-up an id; a join may read all that lies between the first id and the last.
  cross join lateral (
    select * from gapless.outbox_message_t e where e.id = u.id offset 0
  ) o
  -- A group that was moved back meets its old dead letters again.
  on conflict on constraint dead_letter_queue_pkey do update
  set exception = excluded.exception, sqlstate = excluded.sqlstate,
    attempts = d.attempts + excluded.attempts, status = 'dead', created_dt = excluded.created_dt;
  get diagnostics written = row_count;
  if written <> cardinality(dead_letter.message_ids) then
    raise exception 'dead letters of % %-%: % of % events found',
      dead_letter.group_id, dead_letter.topic_id, dead_letter.partition_id,
      written, cardinality(dead_letter.message_ids);
  end if;
  return written;
end
$$;
