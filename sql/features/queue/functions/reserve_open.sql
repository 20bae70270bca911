-- Deliver new events of a partition, for reserve(). Raises GL410 when the log has a hole there.
create or replace function gapless.reserve_open(
  _group_id text, _topic_id int, _partition_id int, _lease_no int, _block int, _max_events int, _worker text,
  _deadline timestamptz
) returns table (
  receipt text, partition_id int, c_offset bigint, attempts int, crashes int, is_letter boolean, was_dead boolean,
  timeline int, deadline timestamptz,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  given uuid := gen_random_uuid();
  taken record;
  hint bigint;
begin
  select r.last_offset + 1 into hint from gapless.queue_range r
  where r.lease_no = _lease_no and r.first_offset >= (
    select f.next_offset from gapless.queue_floor f where f.lease_no = _lease_no order by f.version desc limit 1
  )
  order by r.first_offset desc limit 1;
  loop
    return query
    with
    taken as materialized (
      select t.* from gapless.take_next(
        _group_id, _topic_id, _partition_id, _lease_no, _block, _max_events, hint, _worker, given, _deadline
      ) t
    )
    select 'R' || _lease_no || ':' || t.first_offset || ':' || t.last_offset || ':' || given,
      _partition_id, t.base_offset + u.n - 1, 0, 1, false, false, t.timeline, _deadline,
      coalesce(o.id, gapless.refuse_missing(_topic_id, _partition_id, t.base_offset + u.n - 1)),
      o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id,
      o.transaction_id, o.xid, o.created_ts, o.cause, o.correlation
    from taken t
    left join lateral unnest(t.message_ids) with ordinality as u (id, n) on true
    left join taken o on o.id = u.id
    where t.outcome is not null
      -- An error, where there is a hole. MUST be a condition: an unused column is not computed.
      and case
        when t.outcome = 'claimed' then true
        else gapless.refuse_hole(_group_id, _topic_id, _partition_id, t.outcome, t.first_offset, t.last_offset) is null
      end
    order by 3;
    exit when found or hint is null;
    hint := null;    -- once from the floor: gaps
  end loop;
end
$$;
