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

create index outbox_message_correlation on gapless.outbox_message_t (correlation)
  where correlation is not null;

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
