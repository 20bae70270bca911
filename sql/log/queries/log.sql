-- name: sequence
select gapless.sequence_events()

-- name: heal_letters
select gapless.heal_letters(), gapless.look_at_clock()

-- name: cancel
select gapless.cancel(%(scheduled_id)s::bigint)

-- name: create_chunks
select gapless.create_chunks()

-- name: want_default_chunk
select gapless.want_default_chunk()

-- name: leave_default_chunk
select gapless.leave_default_chunk()

-- name: chunk_triggers
-- Event triggers that run when a chunk is created, and may refuse it or wait, with the remedy for each.
select format('event trigger %I, function %s, runs when a chunk is made: alter event trigger %I disable',
  e.evtname, e.evtfoid::regproc, e.evtname)
from pg_event_trigger e
where e.evtenabled in ('O', 'A') and e.evtevent in ('ddl_command_start', 'ddl_command_end')
  and (e.evttags is null or e.evttags && array['CREATE TABLE', 'ALTER TABLE', 'CREATE INDEX'])
order by e.evtname

-- name: configure_chunks
select gapless.configure_chunks(%(chunk_events)s, %(chunks_ahead)s)

-- name: fetch
-- The events with the given ids, in any order. `between` lets the planner drop the other chunks; the sub-select hides
-- how many ids there are, so that the plan is an index look-up whatever it guesses.
-- index: primary key of a chunk
select o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id, o.transaction_id,
  o.xid, o.created_ts, o.cause, o.correlation
from gapless.outbox_message_t o
where o.id between %(low)s and %(high)s and o.id = any ((select %(ids)s::bigint[])::bigint[])

-- name: is_in_default
select gapless.is_in_default(%(ids)s::bigint[])

-- name: fetch_apart
-- As fetch, in a transaction that lasts, for ids in the default chunk (is_in_default()).
select o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id, o.transaction_id,
  o.xid, o.created_ts, o.cause, o.correlation
from gapless.events_of(%(ids)s::bigint[]) o

-- name: fetch_beside
-- Events that are kept beside the log and no longer in it, as `fetch` returns them.
select id, key, event_type, payload, headers, host_id, user_id, transaction_id, xid, created_ts, cause, correlation
from gapless.events_beside_of(%(ids)s::bigint[])

-- name: rules_of
-- The schemas of a topic: each type's versions, the newest first; null if the caller knows them already. There is
-- always one row. backend_pid: differs from the client's where a pooler stands between.
select t.schemas_no as rules_no, case when t.schemas_no is distinct from %(known)s::bigint then (
  select coalesce(json_agg(
    json_build_object('event_type', s.event_type, 'version', s.version, 'schema', s.schema::text)
    order by s.event_type, s.version desc
  ), '[]')::text
  from gapless.topic_schema s
  where s.topic_id = t.topic_id and s.removed_ts is null
) end as rules, pg_backend_pid() as backend_pid
from (select %(topic)s::text as name) wanted
left join gapless.topic t using (name)

-- name: publish_one
select gapless.publish(
  %(topic)s, %(payload)s::json, %(key)s, %(event_type)s, %(headers)s::jsonb, %(host_id)s,
  %(user_id)s, %(transaction_id)s::uuid
)

-- name: publish_some
-- In the order given, because all arrays are walked together, one row at a time: in FROM, unnest() would store them
-- first, and ORDER BY once more. A column without values is null instead of an array.
-- Arrays in binary: as text every quote is escaped.
with topic as materialized (
  select gapless.topic_id(%(topic)s) as topic_id,
    gapless.cause_uuid(nullif(current_setting('gapless.cause', true), '')) as caused
),
inserted as (
  insert into gapless.outbox_message_t
    (topic_id, payload, key, event_type, headers, host_id, user_id, transaction_id)
  select e.topic_id, e.payload, e.key, e.event_type, e.headers, e.host_id, e.user_id,
    coalesce(e.transaction_id, e.caused)
  from (
    select t.topic_id, t.caused, unnest(%(payload)b::text[])::json as payload,
      unnest(%(key)b::text[]) as key, unnest(%(event_type)b::text[]) as event_type,
      unnest(%(headers)b::text[])::jsonb as headers, unnest(%(host_id)b::text[]) as host_id,
      unnest(%(user_id)b::text[]) as user_id, unnest(%(transaction_id)b::text[])::uuid as transaction_id
    from topic t
  ) e
)
select gapless.own_transaction_id()

-- name: publish_many
-- The facts that a COPY and its caller need: one round trip for both.
select gapless.own_transaction_id(), gapless.topic_id(%(topic)s),
  gapless.cause_uuid(nullif(current_setting('gapless.cause', true), ''))

-- name: publish_one_from
-- As publish_one, for a unit that is being handled.
select gapless.publish_from(
  %(cause)s, %(correlation)s::uuid,
  %(topic)s, %(payload)s::json, %(key)s, %(event_type)s, %(headers)s::jsonb, %(host_id)s,
  %(user_id)s, %(transaction_id)s::uuid
)

-- name: publish_some_from
-- As publish_some. Arrays in binary: as text every quote is escaped.
select gapless.publish_some_from(
  %(cause)s, %(correlation)s::uuid,
  %(topic)s, %(payload)b::text[], %(key)b::text[], %(event_type)b::text[], %(headers)b::text[],
  %(host_id)b::text[], %(user_id)b::text[], %(transaction_id)b::text[]
)

-- name: tell
-- Set the cause of published events, and return the previous one. In this order.
select current_setting('gapless.cause', true) as cause,
  nullif(current_setting('gapless.correlation', true), '') as correlation,
  gapless.tell_cause(%(cause)s, %(correlation)s::uuid)

-- name: copy_events
copy gapless.outbox_message_t
  (topic_id, payload, key, event_type, headers, host_id, user_id, transaction_id)
from stdin

-- name: publish_once
-- One event with a dedupe_key.
select o.transaction_id, o.duplicate::int as duplicates, (not o.duplicate)::int as stored,
  null::bigint[] as scheduled_ids
from gapless.publish_once(
  %(topic)s, %(payload)s::json, %(dedupe_key)s, %(key)s, %(event_type)s, %(headers)s::jsonb,
  %(host_id)s, %(user_id)s, %(transaction_id)s::uuid
) o

-- name: publish_each
-- Several events, at least one with a dedupe_key, or scheduled; the first's transaction_id counts if nothing was
-- stored.
select
  case
    when bool_and(e.duplicate) or count(*) = 1 then (array_agg(e.transaction_id))[1]
    else gapless.own_transaction_id()
  end as transaction_id,
  count(*) filter (where e.duplicate) as duplicates,
  count(*) filter (where not e.duplicate) as stored,
  array_agg(e.scheduled_id) filter (where e.scheduled_id is not null) as scheduled_ids
from gapless.publish_each(
  %(topic)s, %(payload)b::text[], %(key)b::text[], %(event_type)b::text[], %(headers)b::text[],
  %(host_id)b::text[], %(user_id)b::text[], %(transaction_id)b::text[], %(dedupe_key)b::text[],
  %(deliver_at)b::text[], %(deliver_in)b::text[], %(to_group)b::text[], %(to_subscription)b::text[]
) e

-- name: request
select gapless.request(
  %(topic)s, %(payload)s::json, make_interval(secs => %(timeout_s)s), %(to_group)s, %(key)s, %(event_type)s,
  %(headers)s::jsonb, %(host_id)s, %(user_id)s, %(to_subscription)s
)

-- name: reply
select gapless.reply(%(topic)s, %(headers)s::jsonb, %(payload)s::json)

-- name: wait_reply
select r.payload::text from gapless.wait_reply(
  %(topic)s, %(request_id)s::uuid, make_interval(secs => %(wait_s)s)
) r

-- name: publish_request
-- Many events as one request with a key.
select r.transaction_id, r.duplicate, r.scheduled_ids
from gapless.publish_request(
  %(topic)s, %(request_key)s, %(digest)s, %(payload)b::text[], %(key)b::text[], %(event_type)b::text[],
  %(headers)b::text[], %(host_id)b::text[], %(user_id)b::text[], %(deliver_at)b::text[],
  %(deliver_in)b::text[], %(to_group)b::text[], %(to_subscription)b::text[]
) r

-- name: locate
-- The places of a transaction's events; partition null: they have no offset yet.
-- returns: gapless.log.located:Located
select t.name as topic, l.partition_id as partition, l.first_offset, l.last_offset, l.events
from gapless.locate(%(transaction_id)s::text::uuid) l
join gapless.topic t on t.topic_id = l.topic_id
order by t.name, l.partition_id

-- name: create_topic
select gapless.create_topic(%(name)s, %(partitions)s, %(keep_s)s, %(window_s)s)

-- name: adopt_topic
select gapless.adopt_topic(%(topic_id)s, %(name)s, %(partitions)s, %(keep_s)s)

-- name: count_unrouted
select coalesce(sum(u.events), 0) from gapless.unrouted u

-- name: discard_unrouted
select gapless.discard_unrouted(%(topic_id)s)

-- name: topic_is_ours
-- Whether this transaction has created the topic: by its time, for in a savepoint the row has another xid.
select pg_current_xact_id_if_assigned() is not null and t.created_ts = transaction_timestamp()
from gapless.topic t
where t.topic_id = %(topic_id)s

-- name: topic_names
select array(select t.name::text from gapless.topic t order by t.name)

-- name: set_partitions
select gapless.set_partitions(%(name)s, %(partitions)s)

-- name: topic
-- returns: gapless.log.topics:Topic
select t.topic_id, t.name, t.partitions from gapless.topic t where t.name = %(name)s

-- name: try_role
-- The role of the active sequencer: its holder runs; the others look again. The clock first: from then on it is watched
-- all the time (look_at_clock.sql).
with looked as materialized (select gapless.look_at_clock())
select pg_try_advisory_lock(7427001, 3) from looked

-- name: give_role
-- The lock first: unlocking is immediate, the notification comes with the commit.
select pg_advisory_unlock(7427001, 3), pg_notify('gapless_role', '')

-- name: stands_still
select gapless.stands_still()

-- name: break_role
select gapless.break_sequencer(%(run)s)

-- name: try_sleep
-- The sequencer's side of the wake handshake: exclusive means no open publisher believes it awake.
select pg_try_advisory_lock(7427001, 2)

-- name: sequencer_polls
select gapless.sequencer_polls()

-- name: wake_up
select pg_advisory_unlock(7427001, 2)

-- name: pending
select gapless.pending()

-- name: close_chunks
select gapless.close_chunks()

-- name: set_dedupe_window
select gapless.set_dedupe_window(%(name)s, %(window_s)s)

-- name: covers
-- Whether the group exists, and the topic is one of its topics.
select
  exists (select from gapless.consumer_group g where g.group_id = %(group)s),
  exists (
    select from gapless.consumer_group g
    where g.group_id = %(group)s and g.topic_id = gapless.topic_id(%(topic)s)
  )

-- name: wait_for
select w.state, w.group_id,
  case when w.state = 'scheduled' then gapless.scheduled_until(%(transaction_id)s::text::uuid) end as until
from gapless.wait_through(
  %(groups)s, %(transaction_id)s::text::uuid, make_interval(secs => %(timeout_s)s)
) w
