-- Move a group to the place of an old consumer, _places: the next id, for each partition. The group is created, and
-- paused as long as the old consumer handles events. _switches: from now on the group handles them: the old consumer's
-- places go beyond all ids, and the group's pause ends, in one transaction. False: it was switched before; nothing is
-- done. Events that committed before the places were read MUST have their offsets: gapless attach sequences in between.
-- lock: the attachment's row, then those of the old places (old_places), then as seek().
create or replace function gapless.succeed_consumer(
  _attachment_id int, _group_id text, _places bigint[], _switches boolean
) returns boolean
language plpgsql as $$
declare
  made gapless.attached;
  topic text;
  place int;
  holder constant uuid := gapless.attach_holder();
  state text;
  cut bigint;
  moved bigint;
begin
  perform from gapless.attached a where a.attachment_id = _attachment_id for update;
  made := gapless.require_attachment(_attachment_id);
  if made.live_ts is null then
    raise exception '% is not copied to its end yet: gapless attach add copies on', made.table_name
      using errcode = 'GL409';
  end if;
  select t.name into topic from gapless.topic t where t.topic_id = made.topic_id;
  select g.state into state from gapless.attached_group g
  where g.attachment_id = _attachment_id and g.group_id = _group_id;
  if state = 'switched' then
    perform gapless.resume(_group_id, topic, null, holder);    -- an interrupted hand_back() paused it
    return false;
  elsif state is null and exists (
    select from gapless.consumer_group c where c.group_id = _group_id and c.topic_id = made.topic_id
  ) then
    raise exception 'there is a group "%" of topic "%" already, and it stands for no old consumer', _group_id, topic
      using errcode = 'GL409';
  end if;
  perform gapless.create_group(_group_id, topic, 'earliest');
  perform gapless.pause(
    _group_id, topic, null, 'its old consumer handles the events: gapless attach switch', holder
  );
  for place in 0 .. cardinality(_places) - 1 loop
    cut := gapless.attach_cut(made, place, _places[place + 1]);
    select s.new_offset into moved
    from gapless.seek(_group_id, topic, place, to_offset => cut) s;
    if moved <> cut then
      raise exception 'id % is in the middle of a transaction: let the old consumer come to its end, and try again',
        _places[place + 1]
        using errcode = 'GL423';
    end if;
  end loop;
  insert into gapless.attached_group (attachment_id, group_id, state)
  values (_attachment_id, _group_id, case when _switches then 'switched' else 'ready' end)
  on conflict (attachment_id, group_id) do update set state = excluded.state, changed_ts = clock_timestamp();
  if _switches then
    perform gapless.set_old_places(made, _group_id, array_fill(null::bigint, array[cardinality(_places)]));
    perform gapless.resume(_group_id, topic, null, holder);
    perform gapless.note_attach('switch', made.topic_id, made.table_name, _group_id);
  end if;
  return true;
end
$$;
