-- Put one failed unit into the dead letter queue, in the caller's transaction (I9): set_aside() for
-- clients that know no policy. Returns how many events were written; fewer than asked for is an error.
create or replace function gapless.dead_letter(
  group_id text, topic_id int, partition_id int, first_offset bigint, message_ids bigint[],
  exception text, sqlstate text default null, attempts int default 1
)
returns int
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select gapless.set_aside(
    dead_letter.group_id, dead_letter.topic_id, dead_letter.partition_id, dead_letter.first_offset,
    dead_letter.message_ids, 'dead', coalesce(left(substring(dead_letter.exception from '[^\n]*$'), 500), ''),
    dead_letter.exception, sqlstate => dead_letter.sqlstate, attempts => dead_letter.attempts
  )
$$;
