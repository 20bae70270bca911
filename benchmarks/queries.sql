-- name: settings
-- The settings by which the figures of two servers differ.
select s.name, current_setting(s.name)
from pg_settings s
where s.name in (
  'server_version', 'shared_buffers', 'fsync', 'synchronous_commit', 'full_page_writes',
  'wal_level', 'wal_sync_method', 'commit_delay', 'commit_siblings', 'max_wal_size',
  'checkpoint_timeout', 'autovacuum', 'jit', 'max_connections'
)
order by s.name

-- name: is_superuser
select current_setting('is_superuser')

-- name: listens
-- Whether the server takes connections over TCP.
select current_setting('listen_addresses') <> ''

-- name: fill_outbox
-- n events of the topic, with payloads of a given size, a given number of events a commit. Events of a commit have
-- one key: so they are one unit, over any number of partitions.
do $$
declare
  n int := current_setting('bench.events')::int;
  a_commit int := current_setting('bench.events_a_commit')::int;
  topic int := current_setting('bench.topic_id')::int;
  body json := json_build_object('pad', repeat('x', current_setting('bench.payload_bytes')::int - 10));
begin
  for first_event in 1 .. n by a_commit loop
    insert into gapless.outbox_message_t (topic_id, key, event_type, payload)
    select topic, 'key-' || first_event, 'bench', body
    from generate_series(first_event, least(first_event + a_commit - 1, n));
    commit;
  end loop;
end
$$

-- name: set
select set_config(%(name)s, %(value)s, false)

-- name: analyze
analyze

-- name: owned
-- Whether every partition of a group has an owner, and a session has the sequencer's role.
select not exists (
    select from gapless.lease l where l.group_id = %(group_id)s and l.owner is null
  ) and exists (
    select from gapless.lease l where l.group_id = %(group_id)s
  ) and exists (
    select from pg_locks k where k.locktype = 'advisory' and k.classid = 7427001::oid
      and k.objid = 3::oid and k.granted
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
  )

-- name: balanced
-- Whether every partition of a group has the owner that the plan gives it.
select not exists (
  select from gapless.lease l
  where l.group_id = %(group_id)s and (l.owner is null or l.owner is distinct from l.target)
)

-- name: sessions
-- Sessions of gapless in this database.
select count(*) from pg_stat_activity a
where a.datname = current_database() and starts_with(a.application_name, 'gapless/')

-- name: asleep
-- Whether the sequencer sleeps: nothing is left to be sequenced.
select exists (
  select from pg_locks k where k.locktype = 'advisory' and k.classid = 7427001::oid
    and k.objid = 2::oid and k.mode = 'ExclusiveLock' and k.granted
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
)

-- name: lag
-- Events of the group's topics that have an offset and are not handled yet.
select coalesce(sum(h.last_offset + 1 - c.next_offset), 0)::bigint
from gapless.consumer_offsets c
cross join lateral (
  select s.last_offset from gapless.log_segment s
  where s.topic_id = c.topic_id and s.partition_id = c.partition_id
  order by s.base_offset desc limit 1
) h
where c.group_id = %(group_id)s

-- name: progress
select sum(c.next_offset - 1)::bigint from gapless.consumer_offsets c
where c.group_id = %(group_id)s

-- name: ids
-- All message ids of a topic's first partition, in offset order.
select u.id from gapless.log_segment s
cross join lateral unnest(s.message_ids) with ordinality u (id, n)
where s.topic_id = %(topic_id)s and s.partition_id = 0
order by s.base_offset, u.n

-- name: raw_read
-- The columns that a worker must read of an event, and no others.
select o.id, o.key, o.event_type, o.payload, o.headers, o.host_id, o.user_id, o.transaction_id,
  o.xid::text, o.created_ts
from gapless.outbox_message_t o
where o.id = any (%(ids)s)

-- name: committed_offset
create table if not exists committed_offset (
  reader int primary key, handled bigint not null
) with (fillfactor = 50);
truncate committed_offset;
insert into committed_offset values (1, 0)

-- name: commit_offset
-- One round trip: the least for a design that commits each batch.
begin;
update committed_offset set handled = %(handled)s where reader = 1;
commit

-- name: activity
-- Counters before and after; looking takes no xid. Beats are the members' own renewals.
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xids,
  (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as wal_bytes,
  (select d.xact_commit + d.xact_rollback from pg_stat_database d where d.datname = current_database()) as transactions,
  (select coalesce(sum(m.beat), 0) from gapless.member m)::bigint as beats

-- name: autovacuum_off
alter system set autovacuum = off

-- name: autovacuum_reset
alter system reset autovacuum

-- name: reload
select pg_reload_conf()

-- name: small_chunks
update gapless.log_config set chunk_events = 1000, chunks_ahead = 1

-- name: chunk_count
select count(*) from gapless.chunk

-- name: backend_pid
select pg_backend_pid()

-- name: nothing
select 1

-- name: number_in_place
-- The cost of a sequencer that writes the offset into the event's row.
update baseline.numbered_message_t o set c_offset = n.c_offset
from (
  select p.id, row_number() over (order by p.id) as c_offset
  from baseline.numbered_message_t p where p.c_offset is null
) n
where n.id = o.id

-- name: notify_publish
insert into baseline.notify_message_t (payload) values (%(payload)s)

-- name: relay_publish
with stored as (insert into baseline.relay_message_t (payload) values (%(payload)s))
select pg_notify('relay_in', '')

-- name: relay_restart
-- Readers of a number of partitions, at the end of the log; and the newest message.
with readers as (
  insert into baseline.relay_offset (partition, next_number)
  select p, (select coalesce(max(l.number), 0) + 1 from baseline.relay_log l)
  from generate_series(0, %(partitions)s - 1) p
  on conflict (partition) do update set next_number = excluded.next_number
)
select coalesce(max(m.id), 0) from baseline.relay_message_t m

-- name: relay_number
-- New messages get their numbers, and their readers are notified, in one commit.
with fresh as materialized (
  select m.id from baseline.relay_message_t m
  where m.id > %(above)s and m.id <> all (%(recent)s)
  order by m.id
),
numbered as (
  insert into baseline.relay_log (partition, message_id)
  select f.id %% %(partitions)s, f.id from fresh f order by f.id
)
select f.id, pg_notify('relay_out_' || f.id %% %(partitions)s, '') from fresh f

-- name: relay_read
-- Messages numbered since the last time, and the offset after them.
with fresh as materialized (
  select l.number, l.message_id from baseline.relay_log l
  where l.partition = %(partition)s and l.number >= (
    select o.next_number from baseline.relay_offset o where o.partition = %(partition)s
  )
  order by l.number
),
moved as (
  update baseline.relay_offset o set next_number = (select max(f.number) + 1 from fresh f)
  where o.partition = %(partition)s and exists (select from fresh)
)
select m.payload::text
from fresh f
join baseline.relay_message_t m on m.id = f.message_id
order by f.number

-- name: many_partitions
select gapless.create_group('many', 'many')
from (select gapless.create_topic('many', %(partitions)s) offset 0) made

-- name: forget_plan
update gapless.lease set target = null, owner = null

-- name: checkpoint
checkpoint

-- name: vacuum_lease
vacuum gapless.lease

-- name: join
-- Without a session: plans are made for members, and only eviction looks for their locks.
select gapless.join_groups(
  %(member_id)s, gapless.next_member_no(), 'bench', null, 1, interval '1 hour',
  array['many'], array['many']
)

-- name: leave
select gapless.leave_group(%(member_id)s)

-- name: plan
select gapless.sync('many', gapless.topic_id('many'))

-- name: copy_events
copy gapless.outbox_message_t (topic_id, key, event_type, payload) from stdin (format csv)

-- name: wal_bytes
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint

-- name: progress_of_groups
select coalesce(sum(c.next_offset - 1), 0)::bigint from gapless.consumer_offsets c
where c.group_id = any (%(groups)s)

-- name: counters_write
-- One statement: raise the partition's counter by the batch, insert at the offsets below it.
with reserved as (
  update baseline.partition_counter c set next_offset = c.next_offset + cardinality(%(payloads)b::bytea[])
  where c.partition_id = %(partition_id)s
  returning c.next_offset - cardinality(%(payloads)b::bytea[]) as first_offset
)
insert into {table} (c_offset, payload)
select r.first_offset + u.n - 1, u.payload
from reserved r
cross join unnest(%(payloads)b::bytea[]) with ordinality u (payload, n)

-- name: counters_claim
-- Raise the group's offset by the number of new events, up to a limit; the range belongs to the claimer.
with tip as (
  select t.next_offset from baseline.partition_counter t where t.partition_id = %(partition_id)s
),
wanted as (
  select c.next_offset as first_offset,
    least(%(events)s::bigint, greatest(0, (select t.next_offset from tip t) - c.next_offset)) as events
  from baseline.partition_offsets c
  where c.group_id = %(group_id)s and c.partition_id = %(partition_id)s
  for update
)
update baseline.partition_offsets c set next_offset = w.first_offset + w.events
from wanted w
where c.group_id = %(group_id)s and c.partition_id = %(partition_id)s
returning w.first_offset, c.next_offset - 1 as last_offset

-- name: counters_read
select p.c_offset, p.payload, p.created_at from {table} p
where p.c_offset between %(first)s and %(last)s
order by p.c_offset

-- name: counters_take
-- Claim and read in one statement. It looks before it locks: if nothing is new, nothing is written.
with wanted as materialized (
  select c.next_offset as first_offset, least(%(events)s::bigint, t.next_offset - c.next_offset) as events
  from baseline.partition_offsets c
  join baseline.partition_counter t on t.partition_id = c.partition_id
  where c.group_id = %(group_id)s and c.partition_id = %(partition_id)s and t.next_offset > c.next_offset
  for update of c
),
moved as (
  update baseline.partition_offsets c set next_offset = w.first_offset + w.events
  from wanted w
  where c.group_id = %(group_id)s and c.partition_id = %(partition_id)s
  returning w.first_offset, w.first_offset + w.events - 1 as last_offset
)
select p.c_offset, p.payload, p.created_at
from moved m
join {table} p on p.c_offset between m.first_offset and m.last_offset
order by p.c_offset

-- name: counters_join
insert into baseline.partition_offsets (group_id, partition_id)
select g.group_id, c.partition_id
from baseline.partition_counter c
cross join unnest(%(groups)s::text[]) g (group_id)
on conflict do nothing

-- name: counters_progress
select coalesce(sum(c.next_offset - 1), 0)::bigint from baseline.partition_offsets c
where c.group_id = any (%(groups)s)

-- name: counters_fill
with raised as (
  update baseline.partition_counter c set next_offset = c.next_offset + %(events)s
  where c.partition_id = %(partition_id)s
  returning c.next_offset - %(events)s as first_offset
)
insert into {table} (c_offset, payload)
select r.first_offset + i - 1, convert_to('{{"pad":"' || repeat('x', %(payload_bytes)s - 10) || '"}}', 'UTF8')
from raised r
cross join generate_series(1, %(events)s) i

-- name: vacuum
vacuum analyze

-- name: copy_plain
copy baseline.plain_message_t (topic_id, payload, key, event_type) from stdin

-- name: queue_fill
insert into {table} (payload)
select json_build_object('pad', repeat('x', %(payload_bytes)s - 10))
from generate_series(1, %(events)s)

-- name: queue_take
update {table} j set status = 'taken', taken_ts = clock_timestamp()
where j.id in (
  select n.id from {table} n where n.status = 'new' order by n.id limit %(events)s
  for update skip locked
)
returning j.id, j.payload

-- name: queue_done
update {table} j set status = 'done', done_ts = clock_timestamp() where j.id = any (%(ids)s)

-- name: queue_delete
delete from {table} j
where j.id in (
  select n.id from {table} n order by n.id limit %(events)s for update skip locked
)
returning j.id, j.payload

-- name: queue_delete_fast
-- The ids as an array: the planner cannot take it for a join with the whole table.
delete from {table} j
where j.id = any (array(
  select n.id from {table} n order by n.id limit %(events)s for update skip locked
))
returning j.id, j.payload

-- name: counters_skip
-- Let groups begin at the end of the log.
update baseline.partition_offsets c set next_offset = t.next_offset
from baseline.partition_counter t
where t.partition_id = c.partition_id and c.group_id = any (%(groups)s)

-- name: queue_truncate
truncate {table} restart identity

-- name: tail_from_here
select coalesce(max(m.id), 0) from baseline.plain_message_t m

-- name: tail
update baseline.plain_tail t
set upto = new.upto, events = t.events + new.events
from (
  select max(m.id) as upto, count(m.key) as events
  from baseline.plain_message_t m
  where m.id > %(upto)s
) new
where new.upto is not null
returning new.upto

-- name: hold_snapshot
-- An unrelated transaction that stays open: its snapshot holds back every vacuum.
select count(*) from pg_class

-- name: fence
-- The owner that may claim for one partition of a group now.
select c.epoch, c.token from gapless.consumer_offsets c
where c.group_id = %(group_id)s and c.topic_id = 1 and c.partition_id = 0

-- name: probe_claim
select gapless.claim_at(%(group_id)s, 1, 0, %(epoch)s, %(token)s, 100, 0, %(place)s)

-- name: place
-- The ctid of the row that a worker's last claim wrote.
select c.ctid from gapless.consumer_offsets c
where c.group_id = %(group_id)s and c.topic_id = 1 and c.partition_id = 0

-- name: pgmq_create
select pgmq.create('bench')

-- name: pgmq_send
select count(*) from pgmq.send_batch('bench', %(payloads)s::jsonb[])

-- name: pgmq_read
select msg_id, message from pgmq.read('bench', 600, %(events)s)

-- name: pgmq_pop
select msg_id, message from pgmq.pop('bench', %(events)s)

-- name: pgmq_delete
select count(*) from pgmq.delete('bench', %(ids)s::bigint[])

-- name: lean_drop
drop schema if exists baseline cascade

-- name: lean_delete
delete from baseline.job_indexed j
where j.id = any (array(
  select n.id from baseline.job_indexed n where n.status = 'new'
  order by n.id limit %(events)s for update skip locked
))
returning j.id, j.payload

-- name: lean_mark
update baseline.job_indexed j set status = 'done', done_ts = clock_timestamp()
where j.id = any (array(
  select n.id from baseline.job_indexed n where n.status = 'new'
  order by n.id limit %(events)s for update skip locked
))
returning j.id, j.payload

-- name: pgmq_drop
drop schema if exists pgmq cascade

-- name: pgmq_fill
select count(*) from pgmq.send_batch('bench', array(
  select jsonb_build_object('pad', repeat('x', %(payload_bytes)s - 10)) from generate_series(1, %(events)s)
))

-- name: queue_workers
-- Sessions of a queue group's workers.
select count(*) from pg_stat_activity a
where a.datname = current_database() and a.application_name = %(role)s

-- name: queue_place
select lease_no, block from gapless.queue_places(%(group_id)s, %(topic_id)s)

-- name: queue_claim
select * from gapless.take_next(
  %(group_id)s, %(topic_id)s, 0, %(lease_no)s, %(block)s, %(batch_size)s, %(hint)s
)

-- name: later_fill
-- As if each ten had been published by one transaction.
insert into gapless.scheduled (deliver_at, timeline, topic_id, key, event_type, payload, headers, xid)
select d.at, 1, 1, 'key-' || d.n %% 1000, 'bench', json_build_object('pad', repeat('x', 290)),
  jsonb_build_object('at', d.at), (d.n / 10 + 1000000)::text::xid8
from (
  select n, now() + make_interval(secs => %(lead_s)s) + n * %(step_us)s * interval '1 us' as at
  from generate_series(1, %(events)s) n
) d

-- name: later_analyse
analyze gapless.scheduled

-- name: later_clear
delete from gapless.scheduled

-- name: later_at_once
insert into gapless.outbox_message_t (topic_id, key, event_type, payload)
select 1, 'key-' || n %% 1000, 'bench', json_build_object('pad', repeat('x', 290))
from generate_series(1, %(events)s) n

-- name: later_next_xid
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint

-- name: later_left
select exists (select from gapless.scheduled)

-- name: later_unsequenced
select gapless.pending()

-- name: later_lateness
-- From the due time to the end of the run that gave the offset; the log remembers its newest runs.
select percentile_cont(0.5) within group (order by x.late_ms),
  percentile_cont(0.99) within group (order by x.late_ms), max(x.late_ms)
from (
  select extract(epoch from r.ran_ts - (o.headers ->> 'at')::timestamptz)::float8 * 1000 as late_ms
  from gapless.log_segment s
  join gapless.sequencer r on r.run = s.run
  cross join unnest(s.message_ids) u (id)
  join gapless.outbox_message_t o on o.id = u.id
) x

-- name: give_types
-- Events of a number of types, evenly; before any reader starts.
update gapless.outbox_message_t o set event_type = 'type-' || o.id %% %(types)s::int

-- name: capture_insert_captured
insert into public.captured
select nextval('public.capture_ids'), 'customer ' || n, n * 1.25, repeat('x', 200)
from generate_series(1, %(rows)s) n

-- name: capture_insert_untriggered
insert into public.untriggered
select nextval('public.capture_ids'), 'customer ' || n, n * 1.25, repeat('x', 200)
from generate_series(1, %(rows)s) n

-- name: capture_insert_rowwise
insert into public.rowwise
select nextval('public.capture_ids'), 'customer ' || n, n * 1.25, repeat('x', 200)
from generate_series(1, %(rows)s) n

-- name: capture_clear
truncate gapless.outbox_message_t

-- name: give_customers
-- Events of a number of customers, evenly; before any reader starts.
update gapless.outbox_message_t o
set payload = (jsonb_build_object('customer_id', o.id %% %(customers)s::int) || o.payload::jsonb)::json

-- name: subscribe_customers
-- A subscription for each customer.
select count(
  gapless.subscribe(
    %(group)s, 'outbox', 'customer ' || n, '{"customer": "$.customer_id"}', jsonb_build_object('customer', n)
  )
)
from generate_series(0, %(customers)s::int - 1) n

-- name: make_group
select gapless.create_group(%(group)s, 'outbox')

-- name: http_queue_create
create table bench_http_queue (id bigint generated always as identity primary key, key text, payload json not null)

-- name: http_queue_notify
create function bench_http_tell() returns trigger language plpgsql
as 'begin perform pg_notify(''bench_http'', ''''); return null; end';
create trigger tell after insert on bench_http_queue for each statement execute function bench_http_tell();

-- name: http_queue_insert
insert into bench_http_queue (key, payload) select k, p::json from unnest($1::text[], $2::text[]) as e (k, p)

-- name: http_queue_publish
insert into bench_http_queue (payload) values (%(payload)s)

-- name: http_queue_behind
select q.id, q.payload::text from bench_http_queue q where q.id > $1 order by q.id limit 1000

-- name: give_keys
-- Events of a number of keys, evenly; before any reader starts.
update gapless.outbox_message_t o set key = 'key-' || o.id %% %(keys)s::int

-- name: compaction_upsert
-- The next events, as many as a good engineer would take at once: by their ids, since no other writer has lower ones
-- open here; each key once, and the position in the same transaction.
with step as materialized (
  select o.id, o.key, o.payload, o.headers from gapless.outbox_message_t o
  where o.id > %(after)s order by o.id limit %(events)s
),
put as (
  insert into baseline.newest (key, id, payload, headers)
  select distinct on (s.key) s.key, s.id, s.payload, s.headers from step s order by s.key, s.id desc
  on conflict (key) do update set id = excluded.id, payload = excluded.payload, headers = excluded.headers
),
moved as (
  update baseline.newest_place set upto = n.upto from (select max(s.id) as upto from step s) n where n.upto is not null
)
select max(s.id), count(*) from step s

-- name: subscribe_by_sql_and_value
-- A subscription for each customer, with few texts: the value is looked up, then the condition is evaluated.
select count(
  gapless.subscribe(
    %(group)s, 'outbox', 'customer ' || n, '{"customer": "$.customer_id"}', jsonb_build_object('customer', n),
    sql_condition => format(
      '(e.payload ->> ''customer_id'')::int + %%1$s = (s.params ->> ''customer'')::int + %%1$s', n %% %(texts)s::int
    )
  )
)
from generate_series(0, %(customers)s::int - 1) n

-- name: subscribe_by_sql
-- Nothing is looked up: each condition is evaluated for each event, and one event of ten matches each.
select count(
  gapless.subscribe(
    %(group)s, 'outbox', 'remainder ' || n, params => jsonb_build_object('remainder', n),
    sql_condition => format(
      '(e.payload ->> ''customer_id'')::int %%%% %%2$s + %%1$s = (s.params ->> ''remainder'')::int + %%1$s', n,
      %(texts)s::int
    )
  )
)
from generate_series(0, %(texts)s::int - 1) n

-- name: subscribe_by_jsonpath
select count(
  gapless.subscribe(
    %(group)s, 'outbox', 'remainder ' || n, params => jsonb_build_object('remainder', n),
    condition => format('$.customer_id %%%% %%2$s + %%1$s == $remainder + %%1$s', n, %(texts)s::int)
  )
)
from generate_series(0, %(texts)s::int - 1) n

-- name: attach_fill
insert into public.attached (customer, body)
select 'customer ' || n %% 1000, jsonb_build_object('n', n, 'pad', repeat('x', 200))
from generate_series(1, %(rows)s) n

-- name: attach_at_once
insert into gapless.outbox_message_t (topic_id, key, payload)
select 1, a.customer, a.body::json from public.attached a order by a.id

-- name: attach_insert_attached
insert into public.attached (customer, body)
select 'customer ' || n %% 1000, jsonb_build_object('n', n, 'pad', repeat('x', 200))
from generate_series(1, %(rows)s) n

-- name: attach_insert_plain
insert into public.unattached (customer, body)
select 'customer ' || n %% 1000, jsonb_build_object('n', n, 'pad', repeat('x', 200))
from generate_series(1, %(rows)s) n
