-- Deliver events of a partition that were delivered before, for reserve(): a unit that is due first, else a range that
-- lapsed, was given back, or killed its worker. A range that was delivered, or extended, by a clock that was ahead
-- (since_ts) lapses after its own length from now on.
-- index: dead_letter_open; queue_range_pkey from the floor on
create or replace function gapless.reserve_aside(
  _group_id text, _topic_id int, _partition_id int, _lease_no int, _max_events int, _worker text,
  _deadline timestamptz, _crashes_max int
) returns table (
  receipt text, partition_id int, c_offset bigint, attempts int, crashes int, is_letter boolean, was_dead boolean,
  timeline int, deadline timestamptz,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_ts timestamptz := clock_timestamp();
  late_ts timestamptz := now_ts + interval '1 s';    -- less than that is an adjustment of the clock
  given uuid := gen_random_uuid();
  letter gapless.dead_letter;
  old gapless.queue_range;
  upto bigint;
begin
  loop
    select d.* into letter from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.state = 'waiting' and d.next_attempt_ts <= now_ts
    order by d.next_attempt_ts, d.first_offset
    limit 1
    for update skip locked;
    exit when not found;
    if letter.crashes >= _crashes_max then
      update gapless.dead_letter d
      set state = 'dead', next_attempt_ts = null, token = null, died_ts = now_ts, last_failed_ts = now_ts,
        reason = gapless.lapse_reason(letter.crashes)
      where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
        and d.first_offset = letter.first_offset;
      continue;
    end if;
    update gapless.dead_letter d
    set token = given, next_attempt_ts = _deadline, crashes = d.crashes + 1, worker = _worker
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = letter.first_offset;
    return query
    select 'L' || _lease_no || ':' || letter.first_offset || ':' || letter.last_offset || ':' || given,
      _partition_id, e.c_offset, letter.attempts, letter.crashes + 1, true, letter.died_ts is not null,
      letter.timeline, _deadline,
      e.message_id, e.key, e.event_type, e.payload, e.headers, e.host_id, e.user_id,
      e.transaction_id, '0'::xid8, e.created_ts, e.cause, e.correlation
    from gapless.dead_letter_event e
    where e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
      and e.c_offset between letter.first_offset and letter.last_offset and e.first_offset = letter.first_offset
    order by e.c_offset;
    return;
  end loop;

  loop
    select r.* into old from gapless.queue_range r
    where r.lease_no = _lease_no and (r.deadline <= now_ts or r.deadline is not null and r.since_ts > late_ts)
      and r.first_offset >= (
        select f.next_offset from gapless.queue_floor f
        where f.lease_no = _lease_no
        order by f.version desc limit 1
      )
    order by r.first_offset
    limit 1
    for update skip locked;
    exit when not found;
    if old.deadline > now_ts then
      update gapless.queue_range r set deadline = now_ts + (old.deadline - old.since_ts), since_ts = now_ts
      where r.lease_no = _lease_no and r.first_offset = old.first_offset;
      continue;
    end if;
    -- A range that was given back comes as it was; one that was not answered for comes alone.
    upto := least(old.last_offset, old.first_offset + case when old.tries = 0 then _max_events else 1 end - 1);
    if upto < old.last_offset then
      insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder, since_ts)
      values (_lease_no, upto + 1, old.last_offset, old.tries, '-infinity', old.holder, old.since_ts);
    end if;
    if old.tries >= _crashes_max then
      perform gapless.aside_events(
        _group_id, _topic_id, _partition_id, old.first_offset, upto, 'dead',
        gapless.lapse_reason(old.tries), gapless.lapse_reason(old.tries), _worker => old.holder, _attempts => old.tries
      );
      update gapless.queue_range r
      set last_offset = upto, token = null, deadline = null, holder = coalesce(r.holder, '')
      where r.lease_no = _lease_no and r.first_offset = old.first_offset;
      continue;
    end if;
    update gapless.queue_range r
    set last_offset = upto, token = given, deadline = _deadline, holder = coalesce(_worker, ''),
      since_ts = clock_timestamp(), tries = least(r.tries + 1, 32000)
    where r.lease_no = _lease_no and r.first_offset = old.first_offset;
    return query
    select 'R' || _lease_no || ':' || old.first_offset || ':' || upto || ':' || given,
      _partition_id, e.c_offset, 0, old.tries + 1, false, false, e.timeline, _deadline,
      e.id, e.key, e.event_type, e.payload, e.headers, e.host_id, e.user_id,
      e.transaction_id, e.xid, e.created_ts, e.cause, e.correlation
    from gapless.range_events(_topic_id, _partition_id, old.first_offset, upto) e;
    return;
  end loop;
end
$$;
