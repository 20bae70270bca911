-- Explain, in a sentence for people, why a client's partition gives no event although it has more; null: it has none.
create or replace function gapless.standstill_reason(
  _outcome text, _group_id text, _topic text, _partition_id int, _first_offset bigint, _last_offset bigint
) returns text
language sql immutable as $$
  select case _outcome
    when 'hole' then format(
      'offsets %s to %s are not all there: gapless skip %s/%s/%s@%s passes the missing ones',
      _first_offset, _last_offset, _group_id, _topic, _partition_id, _first_offset)
    when 'overrun' then format(
      'retention dropped offsets %s to %s before group %s handled them: gapless seek --earliest continues without them',
      _first_offset, _last_offset, _group_id)
    when 'beyond' then format(
      'the group is at offset %s, beyond the end of the log, where the next event had offset %s: '
      'gapless seek %s/%s/%s@%s --pause --yes',
      _first_offset, _last_offset, _group_id, _topic, _partition_id, _last_offset)
    when 'unplaced' then format(
      'the group has no row in consumer_offsets for it: gapless seek %s/%s/%s gives it a place',
      _group_id, _topic, _partition_id)
  end
$$;
