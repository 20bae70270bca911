-- Return the transaction_id of events that are published now without one: by their cause, else by this transaction.
create or replace function gapless.own_transaction_id() returns uuid
language sql volatile as $$
  select coalesce(
    gapless.cause_uuid(nullif(current_setting('gapless.cause', true), '')),
    gapless.transaction_uuid(pg_current_xact_id(), gapless.timeline())
  )
$$;
