-- The transaction_id of the reply to a request: it follows from the request's, so that nothing has to be noted.
create or replace function gapless.reply_uuid(_request_id uuid)
returns uuid
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select md5('gapless reply to ' || _request_id::text)::uuid
$$;
