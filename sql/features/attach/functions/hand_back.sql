-- Give the events of a group back to its old consumer, from the group's place on; returns the next ids, which also go
-- to the old consumer's places. null: it was not switched. The group MUST be paused, and all committed events
-- sequenced, while the caller holds the attached table in share row exclusive mode: events without an offset, or with a
-- lower id that come later, would be lost to both. Raises GL423: a worker owns a partition; GL409: no id corresponds to
-- the group's place.
-- lock: as seek().
create or replace function gapless.hand_back(_attachment_id int, _group_id text) returns bigint[]
language plpgsql as $$
declare
  made gapless.attached;
  places bigint[];
  part record;
begin
  perform from gapless.attached a where a.attachment_id = _attachment_id for update;
  made := gapless.require_attachment(_attachment_id);
  perform from gapless.attached_group g
  where g.attachment_id = _attachment_id and g.group_id = _group_id and g.state = 'switched';
  if not found then
    return null;
  end if;
  perform gapless.hold_still(_group_id, made.topic_id);
  places := array(
    select gapless.place_of(made, c.partition_id, c.next_offset) from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = made.topic_id
    order by c.partition_id
  );
  if made.places is null or made.places ->> 'partition' is null then
    places := array_fill(
      (select min(p) from unnest(places) p), array[cardinality(places)]
    );
  end if;
  for part in
    select c.partition_id, c.next_offset from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = made.topic_id
    order by c.partition_id
  loop
    if gapless.attach_cut(made, part.partition_id, places[part.partition_id + 1]) < part.next_offset then
      raise exception 'no id stands for where "%" is: it has handled events behind id %; try again when its lag is 0',
        _group_id, places[part.partition_id + 1]
        using errcode = 'GL409';
    end if;
  end loop;
  perform gapless.set_old_places(made, _group_id, places);
  update gapless.attached_group g set state = 'ready', changed_ts = clock_timestamp()
  where g.attachment_id = _attachment_id and g.group_id = _group_id;
  -- Programs that watch the old consumer look at its own table again.
  perform gapless.hide_classic(_group_id, (select t.name from gapless.topic t where t.topic_id = made.topic_id));
  perform gapless.note_attach('hand-back', made.topic_id, made.table_name, _group_id);
  return places;
end
$$;
