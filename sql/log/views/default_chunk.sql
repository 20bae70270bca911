-- The content of the default chunk, and why it is still there (empty_default_chunk.sql); no row: it is empty. pid: the
-- session whose transaction is waited for.
create or replace view gapless.default_chunk as
select 'outbox_message_default' as chunk,
  pg_total_relation_size('gapless.outbox_message_default') as bytes,
  w.pid,
  'no chunk was made in time for its events: they become chunks of their own '
    || coalesce(
      'when pid ' || w.pid || ' has ended a transaction that was open before they were copied',
      'when no event is published into it any more, and retention has looked'
    ) as reason
from (values (1)) one
left join lateral (
  select l.pid from gapless.chunk_copy c
  join pg_locks l on l.virtualxid = any (c.beside)
  limit 1
) w on true
where exists (select from gapless.outbox_message_default);
