-- Return the error of a condition without the data: a payload may be private, and a reason is in the audit, the log and
-- the view of subscriptions. The message is cut at the first colon or number, without the parts in double quotes; in
-- another language of messages, perhaps earlier. message, state: SQLERRM, SQLSTATE.
create or replace function gapless.stop_reason(_message text, _state text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select left(
    rtrim(
      coalesce(substring(regexp_replace(_message, '".*"', '..') from '^[[:alpha:] ./,()-]+'), 'an error'), ' (,-'
    ),
    200
  ) || ' (SQLSTATE ' || _state || ')'
$$;
