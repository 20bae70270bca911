-- Return the transaction_id of the reply to a request: it follows from the request's, so nothing has to be stored.
create or replace function gapless.reply_uuid(_request_id uuid) returns uuid
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select md5('gapless reply to ' || _request_id::text)::uuid
$$;
