-- Tell whether an event of the chain of a transaction waits for its time that a group scheduled into a topic which
-- another group covers. MUST be asked in a statement after the one that saw that the group was done.
create or replace function gapless.chain_waits(_transaction_id uuid, _cause_group text, _group_id text) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.scheduled s
    where s.correlation = any (
        array(
          select _transaction_id
          union
          select m.correlation from gapless.outbox_message_t m
          where m.transaction_id = _transaction_id and m.correlation is not null
        )
      )
      and starts_with(s.cause, _cause_group || '/')
      and s.topic_id in (select g.topic_id from gapless.consumer_group g where g.group_id = _group_id)
  )
$$;
