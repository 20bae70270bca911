-- name: begin
begin isolation level read committed

-- name: commit
commit

-- name: rollback
rollback

-- name: claim
-- The place as text, as it goes back: psycopg has no type for it, and reads this answer in binary.
select outcome, first_offset, last_offset, claim_xid, place_after::text, base_offset, message_ids, unit_ends,
  timeline
from gapless.claim_at(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(batch_size)s,
  %(read_ahead)s, %(place)s, %(group_by)s
)

-- name: claim_events
select outcome, first_offset, last_offset, claim_xid, place_after::text, base_offset, message_ids, unit_ends,
  timeline, id, key, event_type, payload, headers, host_id, user_id, transaction_id, xid, created_ts,
  cause, correlation
from gapless.claim_events(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(batch_size)s,
  %(events_max)s, %(place)s, %(group_by)s
)

-- name: claim_kept
select outcome, first_offset, last_offset, claim_xid, place_after::text, base_offset, message_ids, unit_ends,
  timeline, kept, kept_offsets, filter_errors, lost_id, matched, asks, id, key, event_type, payload, headers, host_id,
  user_id, transaction_id, xid, created_ts, cause, correlation
from gapless.claim_kept(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(batch_size)s,
  %(events_max)s, %(place)s, %(group_by)s, %(scan_max)s, true
)

-- name: limit_conditions
-- The time limit of the next statement's conditions (features/filters/conditions.py: LIMIT_S), instead of the
-- handlers'.
select set_config('gapless.timeout', current_setting('statement_timeout'), true),
  set_config('statement_timeout', %(limit)s, true)

-- name: ask_conditions
select offsets, matched, failed, reasons, slow, rest
from gapless.ask_conditions(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(message_ids)s, %(first_offset)s, %(only)s
)

-- name: stop_subscriptions
select gapless.stop_subscriptions(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(ids)s, %(reasons)s
)

-- name: tally_filter
select gapless.tally_filter(
  %(group_id)s, %(topic_id)s, %(partition_id)s, c.filter_no, %(events)s, %(kept_offsets)s, %(filter_errors)s
)
from gapless.consumer_offsets c
where c.ctid = gapless.offset_row(%(group_id)s, %(topic_id)s, %(partition_id)s)

-- name: claim_ahead
select claim_xid, place_after
from gapless.claim_ahead(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(first_offset)s,
  %(last_offset)s, %(place)s
)

-- name: skip_overrun
select gapless.skip_overrun(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(to_end)s
)

-- name: stop_beyond
select gapless.stop_beyond(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(log_end)s
)

-- name: count_events
select gapless.count_events(%(ids)s::bigint[])

-- name: finish_units
select gapless.require_settings(%(settings)s),
  case when gapless.finish_units(%(claim_xid)s, %(units)s) is not true then gapless.require_finish(false) end

-- name: settings
-- The session's settings before the first handler. A transaction's own settings end with it.
select gapless.settings_in_force(), coalesce(array_agg(s.name), '{}'),
  coalesce(array_agg(pg_catalog.current_setting(s.name)), '{}')
from pg_catalog.pg_settings s
where s.source = 'session'
  and s.name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable')

-- name: reset_statement_timeout
reset statement_timeout

-- name: reset_session_authorization
reset session authorization

-- name: reset_role
reset role

-- name: restore_settings
select gapless.restore_settings(%(names)s, %(vals)s)

-- name: tell_cause
-- While the handler's next call is prepared: its events are published for this unit.
select gapless.tell_cause(%(cause)s, %(correlation)s::uuid)

-- name: check_unit
-- Run the checks of a COMMIT early, while the unit's savepoint can still be rolled back.
select gapless.require_settings(%(settings)s), gapless.check_constraints()

-- name: set_aside
select gapless.set_aside(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offset)s, %(message_ids)s,
  %(state)s, %(reason)s, %(exception)s, %(exception_class)s, %(sqlstate)s, %(attempts)s,
  make_interval(secs => %(retry_after_s)s), %(parks)s, %(worker)s, %(duration_ms)s, %(kept)s,
  %(matched)s
)

-- name: lift_timeout
-- statement_timeout is for handlers: to write down a large unit may take longer.
select set_config('gapless.timeout', current_setting('statement_timeout'), true),
  set_config('statement_timeout', '0', true)

-- name: put_timeout_back
select set_config(
  'statement_timeout',
  coalesce(nullif(current_setting('gapless.timeout', true), ''), current_setting('statement_timeout')),
  true
)

-- name: settle_parked
select gapless.settle_parked(%(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offsets)s)

-- name: holds_keys
select gapless.holds_keys(%(group_id)s, %(topic_id)s, %(partition_id)s)

-- name: unit_keys
select first_offset, key_digest, is_held
from gapless.unit_keys(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(message_ids)s, %(first_offsets)s
)

-- name: letters_due
select first_offset, wait_s
from gapless.letters_due(%(group_id)s, %(topic_id)s, %(partition_id)s)

-- name: record_try
select gapless.record_try(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(first_offset)s
)

-- name: forget_try
select gapless.forget_try(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(first_offset)s
)

-- name: claim_letter
-- has_subscriptions: whether letter_matches can find anything.
select outcome, claim_xid, last_offset, attempts, was_dead, timeline,
  gapless.has_subscriptions(%(group_id)s, %(topic_id)s) as has_subscriptions
from gapless.claim_letter(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(first_offset)s
)

-- name: finish_letter
select gapless.require_settings(%(settings)s),
  gapless.require_finish(gapless.finish_letter(
    %(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offset)s, %(claim_xid)s
  ))

-- name: letter_failed
select gapless.letter_failed(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(first_offset)s,
  %(state)s, %(reason)s, %(exception)s, %(exception_class)s, %(sqlstate)s,
  make_interval(secs => %(retry_after_s)s), %(worker)s, %(duration_ms)s, %(counted)s
)

-- name: failing_keys
-- The number of distinct keys of the newest failed units of a group, in one of its partitions or in all; a unit counts
-- by its first event, a unit without a key by its host or its transaction.
-- now_s: the database's clock.
-- index: dead_letter_pkey, backwards
select count(distinct coalesce(e.key, e.host_id, e.transaction_id::text)) as keys,
  extract(epoch from clock_timestamp())::float8 as now_s
from (
  select d.group_id, d.topic_id, d.partition_id, d.first_offset
  from gapless.all_offsets c
  cross join lateral (
    select d.*
    from gapless.dead_letter d
    where d.group_id = c.group_id and d.topic_id = c.topic_id and d.partition_id = c.partition_id
      and d.state in ('waiting', 'dead')
    order by d.first_offset desc
    limit %(units)s
  ) d
  where c.group_id = %(group_id)s
    and (%(topic_id)s::int is null or c.topic_id = %(topic_id)s and c.partition_id = %(partition_id)s)
  order by d.last_failed_ts desc
  limit %(units)s
) d
join gapless.dead_letter_event e on e.group_id = d.group_id and e.topic_id = d.topic_id
  and e.partition_id = d.partition_id and e.c_offset = d.first_offset

-- name: narrow_letter
select gapless.narrow_letter(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(first_offset)s, %(only)s::bigint[]
)

-- name: fetch_letter
-- The events of a unit that was set aside, in offset order: whether its handler gets them, then the
-- columns of the query `fetch`.
select e.is_kept, e.message_id, e.key, e.event_type, e.payload, e.headers, e.host_id, e.user_id,
  e.transaction_id, 0::bigint as xid, e.created_ts, e.cause, e.correlation
from gapless.letter_events(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offset)s, %(from_offset)s, %(to_offset)s
) e
order by e.c_offset

-- name: letter_matches
select c_offset, subscription_id, name, params
from gapless.letter_matches(%(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offset)s)
order by 1, 2

-- name: subscriptions
select subscription_id, name, params from gapless.subscriptions_of(%(ids)s::bigint[])

-- name: letter_kept
select c_offset
from gapless.letter_kept(%(group_id)s, %(topic_id)s, %(partition_id)s, %(first_offset)s) c_offset
order by 1

-- name: record_attempt
select gapless.record_attempt(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s
)

-- name: forget_attempt
select gapless.forget_attempt(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s
)

-- name: deliveries
select first_offset, crashes, finished
from gapless.deliveries_of(%(group_id)s, %(topic_id)s, %(partition_id)s)

-- name: note_deliveries
select first_offset, attempts, crashes
from gapless.note_deliveries(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s, %(expected)s,
  %(ended)s, %(done)s, %(begun)s, %(begun_last)s, %(upto)s
)

-- name: forget_deliveries
select gapless.forget_deliveries(
  %(group_id)s, %(topic_id)s, %(partition_id)s, %(epoch)s, %(token)s
)
