-- Return the matches of a group's filter among the events with offsets first .. last (both inclusive) of a partition:
-- the matching events in offset order, and why the filter could not be evaluated for some of them (filter_errors, as
-- long as kept; null: none). upto: the last examined offset; less than last at the end of the log, or before an offset
-- or an event that is missing (lost_offset, and lost_id, null where the segment is gone too).
-- filter: a row of group_filter; a row of nulls matches all events. For a group with subscriptions, it matches their
-- events; matched: the subscriptions, as long as kept, each a text of numbers with commas between.
-- to_group: of events for one group, those for this group match (direct_headers.sql); null: not checked.
-- plan: as claim_kept() says, which calls it.
create or replace function gapless.kept_in(
  _topic_id int, _partition_id int, _first bigint, _last bigint, _filter gapless.group_filter,
  _to_group text default null
) returns table (
  kept_offsets bigint[], kept bigint[], filter_errors text[], upto bigint, lost_offset bigint, lost_id bigint,
  matched text[]
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
declare
  newest bigint;    -- offset
  low bigint;       -- of ids
  high bigint;
  ids bigint[];
  found_events bigint;
  hits bigint[];
  odd bigint[];    -- matches for which the filter could not be evaluated, and why
  why text[];
  exact text[];
  patterns text[];
begin
  -- Nearly always one segment has all of them.
  select s.message_ids[_first - s.base_offset + 1 : _last - s.base_offset + 1], _last into ids, newest
  from gapless.log_segment s
  where s.topic_id = _topic_id and s.partition_id = _partition_id and s.last_offset >= _last
    and s.base_offset = (
      select b.base_offset from gapless.log_segment b
      where b.topic_id = _topic_id and b.partition_id = _partition_id and b.base_offset <= _first
      order by b.base_offset desc limit 1
    );
  if ids is null then
    select array_agg(u.id order by s.base_offset + u.skipped + u.n), max(s.base_offset + u.skipped + u.n - 1)
    into ids, newest
    from gapless.log_segment s
    cross join lateral (
      select x.skipped, e.id, e.n
      from (select greatest(_first - s.base_offset, 0) as skipped) x
      cross join lateral unnest(s.message_ids[x.skipped + 1 : _last - s.base_offset + 1])
        with ordinality as e (id, n)
    ) u
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= _last
      and s.base_offset >= coalesce(
        (
          select b.base_offset from gapless.log_segment b
          where b.topic_id = _topic_id and b.partition_id = _partition_id and b.base_offset <= _first
          order by b.base_offset desc limit 1
        ), 0)
      and s.last_offset >= _first;
  end if;
  upto := _first - 1;
  kept_offsets := '{}';
  kept := '{}';
  if ids is null then
    return next;
    return;
  end if;
  if newest - _first >= cardinality(ids) then    -- a segment is missing
    lost_offset := coalesce(
      (
        select min(s.last_offset) + 1 from gapless.log_segment s
        where s.topic_id = _topic_id and s.partition_id = _partition_id
          and s.last_offset >= _first and s.last_offset < newest and s.base_offset <= _last
          and not exists (
            select from gapless.log_segment n
            where n.topic_id = _topic_id and n.partition_id = _partition_id
              and n.base_offset = s.last_offset + 1
          )
          and exists (
            select from gapless.log_segment b
            where b.topic_id = _topic_id and b.partition_id = _partition_id
              and b.base_offset <= _first and b.last_offset >= _first
          )
      ), _first);
    ids := ids[1 : lost_offset - _first];
    if ids = '{}' then
      return next;
      return;
    end if;
  end if;

  -- As claim_events().
  select min(i), max(i), set_config('plan_cache_mode', 'force_custom_plan', true) into low, high from unnest(ids) i;
  exact := array(select t from unnest(_filter.event_types) t where t !~ '[*]');
  patterns := array(
    select gapless.type_pattern(t) from unnest(_filter.event_types) t where t ~ '[*]'
  );
  begin
    select count(*), array_agg(x.id) filter (where x.verdict is not null),
      array_agg(x.id) filter (where x.verdict <> ''), array_agg(x.verdict) filter (where x.verdict <> '')
    into found_events, hits, odd, why
    from (
      select o.id,
        case
          when _to_group is not null and coalesce(o.headers ->> 'gapless-to-group', _to_group) <> _to_group
            then null
          when not (
            _filter.event_types is null or coalesce(o.event_type, '') = any (exact)
            or coalesce(o.event_type, '') like any (patterns)
          ) then null
          when _filter.condition is null then ''
          else gapless.condition_error(o.payload, _filter.condition, _filter.params)
        end as verdict
      from gapless.outbox_message_t o
      where o.id between low and high
        and o.id = any ((select ids)::bigint[])
      offset 0
    ) x;
    if found_events < cardinality(ids) then    -- an event is missing (I3): the events before it count
      select u.n, u.id into lost_offset, lost_id
      from unnest(ids) with ordinality as u (id, n)
      where not exists (select from gapless.outbox_message_t o where o.id = u.id and o.id between low and high)
      order by u.n limit 1;
      ids := ids[1 : lost_offset - 1];
      lost_offset := _first + lost_offset - 1;
    end if;
    if gapless.is_in_default(ids) then
      raise exception using errcode = 'GL000';
    end if;
  exception
    when sqlstate 'GL000' then
      null;
  end;
  upto := _first + cardinality(ids) - 1;
  if _filter.subscribed then
    select coalesce(array_agg(_first + m.n - 1 order by m.n), '{}'), coalesce(array_agg(ids[m.n] order by m.n), '{}'),
      coalesce(array_agg(m.numbers order by m.n), '{}'),
      case when bool_or(m.error is not null) then array_agg(m.error order by m.n) end
    into kept_offsets, kept, matched, filter_errors
    from (
      select e.n, max(e.error) as error, string_agg(s::text, ',' order by s) as numbers
      from gapless.match_events(_filter.group_id, _filter.topic_id, _partition_id, ids, _to_group) e
      left join lateral unnest(e.matched) s on true
      group by e.n
    ) m;
    return next;
    return;
  end if;
  select coalesce(array_agg(_first + u.n - 1 order by u.n), '{}'), coalesce(array_agg(u.id order by u.n), '{}')
  into kept_offsets, kept
  from unnest(ids) with ordinality as u (id, n)
  where u.id = any (hits);
  if odd is not null then
    filter_errors := array(
      select why[array_position(odd, k.id)] from unnest(kept) with ordinality as k (id, n) order by k.n
    );
  end if;
  return next;
end
$$;
