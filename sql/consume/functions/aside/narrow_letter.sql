-- Let a waiting or dead unit be handled again for these of its subscriptions alone (their numbers): for the others it
-- succeeded. Called in the transaction of letter_failed().
-- locks: the fence, then the unit's events
create or replace function gapless.narrow_letter(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _first_offset bigint, _only bigint[]
) returns void
language sql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  update gapless.dead_letter_event e
  set is_kept = u.numbers && _only,
    subscriptions = array(select s from unnest(u.numbers) s where s = any (_only))
  from (
    select x.c_offset, gapless.letter_subscriptions(x) as numbers
    from gapless.dead_letter d
    join gapless.dead_letter_event x using (group_id, topic_id, partition_id, first_offset)
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = _first_offset and x.c_offset between d.first_offset and d.last_offset
  ) u
  where gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token)
    and e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
    and e.c_offset = u.c_offset and not u.numbers <@ _only
$$;
