-- What a condition raised, without what it was asked about: a payload may be private, and a reason is in the audit, the
-- log and the view of subscriptions. Of the message stays what stands before the first colon or number, with what is in
-- double quotes left out; in another language of messages, perhaps less. message, state: SQLERRM, SQLSTATE.
create or replace function gapless.stop_reason(_message text, _state text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select left(
    rtrim(
      coalesce(substring(regexp_replace(_message, '".*"', '..') from '^[[:alpha:] ./,()-]+'), 'an error'), ' (,-'
    ),
    200
  ) || ' (SQLSTATE ' || _state || ')'
$$;
