-- Match one subscription against events that its group has passed, offsets first to last (both inclusive), and set the
-- units with matches, and with messages to it (direct_headers.sql), aside, to be handled again at once, for this
-- subscription alone. Returns the number of matching events. A unit that waits already gets it in addition. A part of
-- resume_subscription() and, with _replays, of replay_webhook(). Raises GL409 when its condition raises, takes longer
-- than 5 s, or is still running at statement_timeout.
-- locks: the letters of these units
create or replace function gapless.set_missed_aside(
  _group_id text, _topic_id int, _partition_id int, _subscription_id bigint, _first bigint, _last bigint,
  _replays boolean default false
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  ids bigint[];
  answer record;
  unit record;
  units bigint := 0;
  began_ts timestamptz;
  so text := case when _replays then '' else 'it stays stopped, for ' end;
  why text := case when _replays then 'it is sent again' else 'a subscription was stopped when it passed' end;
begin
  select array_agg(u.id order by s.base_offset + u.n) into ids
  from gapless.log_segment s
  cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
  where s.topic_id = _topic_id and s.partition_id = _partition_id
    and s.base_offset <= _last and s.last_offset >= _first
    and s.base_offset + u.n - 1 between _first and _last;
  if cardinality(ids) is distinct from (_last - _first + 1)::int then
    raise exception 'offsets % to % of partition % are missing from the log: its missed events cannot be read any more',
      _first, _last, _partition_id
      using errcode = 'GL409';
  end if;
  began_ts := clock_timestamp();
  select a.* into answer
  from gapless.ask_conditions(_group_id, _topic_id, _partition_id, ids, _first, array[_subscription_id]) a;
  if answer.failed <> '{}' then
    raise exception '%its condition raises about offsets % to % of partition %: %',
      so, _first, _last, _partition_id, answer.reasons[1]
      using errcode = 'GL409';
  end if;
  if answer.slow <> '{}' or answer.rest <> '{}' then    -- it was not evaluated for all of them
    raise exception '%its condition takes longer than statement_timeout about offsets % to % of partition %',
      so, _first, _last, _partition_id
      using errcode = 'GL409';
  end if;
  -- Messages to it, which its condition does not concern; without a condition, the matches by values or jsonpath.
  answer.offsets := answer.offsets || array(
    select _first + m.n - 1
    from gapless.match_events(
      _group_id, _topic_id, _partition_id, ids, (
        select _group_id from gapless.topic t where t.topic_id = _topic_id and t.direct
      ), array[_subscription_id]
    ) m
    where _subscription_id = any (m.matched)
  );
  if clock_timestamp() - began_ts > '5 s' then    -- as a claim's: LIMIT_S of features/filters/conditions.py
    raise exception '%its condition takes longer than 5 s about offsets % to % of partition %',
      so, _first, _last, _partition_id
      using errcode = 'GL409';
  end if;
  for unit in
    select u.first_offset, array_agg(u.c_offset order by u.c_offset) as hits
    from (
      select h.c_offset, gapless.unit_start(_topic_id, _partition_id, h.c_offset) as first_offset
      from unnest(answer.offsets) h (c_offset)
    ) u
    group by u.first_offset
    order by u.first_offset
  loop
    units := units + 1;
    perform from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = unit.first_offset and d.state in ('waiting', 'parked', 'dead')
    for update;
    if not found then    -- none, or one that is through
      perform gapless.set_aside(
        _group_id, _topic_id, _partition_id, unit.first_offset,
        array(
          select u.id
          from gapless.log_segment s
          cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
          where s.topic_id = _topic_id and s.partition_id = _partition_id
            and s.last_offset >= unit.first_offset
            and s.base_offset <= e.last_offset
            and s.base_offset + u.n - 1 between unit.first_offset and e.last_offset
          order by s.base_offset + u.n
        ),
        'waiting', why, why,
        _attempts => 0, _retry_after => '0 s', _kept => unit.hits,
        _matched => array_fill(_subscription_id::text, array[cardinality(unit.hits)])
      )
      from gapless.unit_end(_topic_id, _partition_id, unit.first_offset) e;
      continue;
    end if;
    update gapless.dead_letter_event e
    set is_kept = true,
      subscriptions = array_append(
        array_remove(case when e.is_kept then e.subscriptions end, _subscription_id), _subscription_id
      )
    where e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
      and e.first_offset = unit.first_offset and e.c_offset = any (unit.hits);
    -- This unit waits neither for a person, nor for the delay of the other subscriptions.
    update gapless.dead_letter d set state = 'waiting', next_attempt_ts = clock_timestamp()
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = unit.first_offset and d.state in ('waiting', 'dead');
  end loop;
  return units;
end
$$;
