-- Return the longest window, in seconds, of the topics that have keys in a slot; null when none has.
create or replace function gapless.dedupe_longest(_slot int) returns double precision
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off    -- a look into the index for each topic, not all keys
set jit = off as $$
begin
  return (
    select max(extract(epoch from t.dedupe_window))
    from gapless.topic t
    where exists (
      select from gapless.dedupe d
      where d.topic_id = t.topic_id and d.slot = _slot
    )
  );
end
$$;
