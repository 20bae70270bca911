-- Raise GL400 for an invalid mode, block or max_crashes of create_group(); GL409 when the group has the other mode for
-- another topic: the guarantees for a handler would depend on the topic of an event.
create or replace function gapless.check_mode(_group_id text, _topic_id int, _mode text, _block int, _max_crashes int)
returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  other text;
begin
  if (_mode in ('ordered', 'queue')) is not true then
    raise exception 'the mode of a group is ordered or queue, not %', coalesce(_mode, 'null')
      using errcode = 'GL400';
  end if;
  if _mode = 'ordered' and num_nonnulls(_block, _max_crashes) > 0 then
    raise exception 'group "%": only a queue has a block and max_crashes', _group_id using errcode = 'GL400';
  end if;
  if _block not between 1 and 10000 then
    raise exception 'group "%": a block is from 1 to 10000 events, not %', _group_id, _block
      using errcode = 'GL400';
  end if;
  if _max_crashes not between 1 and 1000 then
    raise exception 'group "%": max_crashes is from 1 to 1000, not %', _group_id, _max_crashes
      using errcode = 'GL400';
  end if;
  select t.name into other from gapless.consumer_group g
  join gapless.topic t using (topic_id)
  where g.group_id = _group_id and g.topic_id <> _topic_id and g.mode <> _mode
  order by t.name limit 1;
  if found then
    raise exception 'group "%" is % for topic "%", and cannot be % for another: choose another group',
      _group_id, case _mode when 'queue' then 'ordered' else 'a queue' end, other,
      case _mode when 'queue' then 'a queue' else 'ordered' end
      using errcode = 'GL409';
  end if;
end
$$;
