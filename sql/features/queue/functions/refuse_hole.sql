-- Raise GL410 when take_next() met a hole in the log, or its end before the group's place; else do nothing.
create or replace function gapless.refuse_hole(
  _group_id text, _topic_id int, _partition_id int, _outcome text, _first_offset bigint, _last_offset bigint
) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  place text;
begin
  if _outcome in ('overrun', 'hole', 'beyond') then
    select concat_ws('/', _group_id, t.name, _partition_id) into place
    from gapless.topic t where t.topic_id = _topic_id;
    raise exception '%: % at offset %: gapless %', place,
      case _outcome
        when 'overrun' then 'retention has dropped events that the group had not handled'
        when 'hole' then 'events are missing in the log'
        else 'the group is beyond the end of the log'
      end, _first_offset,
      case _outcome
        when 'beyond' then format('seek %s --pause --yes, with --earliest or --latest, is needed', place)
        else format('skip %s@%s continues without them', place, _first_offset)
      end
      using errcode = 'GL410';
  end if;
end
$$;
