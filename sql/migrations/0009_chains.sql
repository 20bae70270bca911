-- Chains (I10): what a handler publishes says what it came of; keys that a failover does not repeat.

-- cause: what was being handled when it was published, as its idempotency key
-- (`group/topic/partition@offset`); correlation: the transaction_id of the first event of the chain.
-- The defaults read what a consuming transaction says of itself (functions/cause.sql), with built-in
-- functions alone: whoever may insert needs no right to call one of ours.
alter table gapless.outbox_message_t
  add column cause text,
  add column correlation uuid;
alter table gapless.outbox_message_t
  alter column cause set default nullif(current_setting('gapless.cause', true), ''),
  alter column correlation set default nullif(current_setting('gapless.correlation', true), '')::uuid,
  -- As gapless.cause_uuid(). Of what no handler publishes it is null, and read as transaction_uuid().
  alter column transaction_id set default case
    when current_setting('gapless.cause', true) <> '' then
      overlay(overlay(
        encode(substring(sha256(convert_to(current_setting('gapless.cause', true), 'UTF8')) for 16), 'hex')
        placing '8' from 13) placing '8' from 17)::uuid
  end;

-- Of the events that are there none has a correlation: only chunks that are still written to get the
-- index, for to build it a chunk is read while publishers wait. Whoever looks for a correlation begins
-- at chains_from. Chunks made later have it from the parent.
alter table gapless.log_config add column chains_from bigint not null default 0;
create index outbox_message_correlation on only gapless.outbox_message_t (correlation)
  where correlation is not null;

do $$
declare
  next_id bigint := (select s.last_value + s.is_called::int from gapless.outbox_message_id_seq s);
  chunk record;
begin
  for chunk in
    select c.relname, b.from_id, b.upto
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral (
      select (regexp_match(x.bound, 'FROM \(''?(\d+)''?\)'))[1]::bigint as from_id,
        (regexp_match(x.bound, 'TO \(''?(\d+)''?\)'))[1]::bigint as upto
      from (select pg_get_expr(c.relpartbound, c.oid)) as x (bound)
    ) b
    where i.inhparent = 'gapless.outbox_message_t'::regclass
  loop
    continue when chunk.upto <= next_id;
    execute format(
      'create index %I on gapless.%I (correlation) where correlation is not null',
      chunk.relname || '_correlation', chunk.relname
    );
    execute format(
      'alter index gapless.outbox_message_correlation attach partition gapless.%I',
      chunk.relname || '_correlation'
    );
    if chunk.from_id <= next_id then
      update gapless.log_config set chains_from = chunk.from_id;
    end if;
  end loop;
end
$$;

alter table gapless.dead_letter_event
  add column cause text,
  add column correlation uuid;

-- The timeline of the server that gave these offsets: a promotion changes it. Null: before this
-- migration, which counts as 1.
alter table gapless.log_segment add column timeline int;
alter table gapless.dead_letter add column timeline int;

-- They take or return more than before; a call that knows nothing of it means the same.
drop function if exists gapless.claim_at(text, int, int, bigint, uuid, int, int, tid);
drop function if exists gapless.claim_events(text, int, int, bigint, uuid, int, int, tid);
drop function if exists gapless.claim_letter(text, int, int, bigint, uuid, bigint);
drop function if exists gapless.transaction_uuid(xid8);
