-- Take emptied chunks out of the table; returns their number. Needs the whole table for a moment, and raises 55P03 when
-- that cannot be had. Without patience it does not wait at all; with it, 20 ms for each of them and at most 1 s, in
-- which publishers wait, too: the longer it did not succeed, the more it is worth. It does not wait while a transaction
-- that uses the log is older than that: it would wait in vain.
create or replace function gapless.drop_emptied_chunks(_patient boolean default false) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set client_min_messages = warning
set lock_timeout = '100ms'    -- to look at a chunk that is being dropped waits for it
as $$
declare
  emptied text[];
  each text;
begin
  select array_agg(c.chunk order by c.upto) into emptied
  from gapless.chunk c, gapless.retention_state s
  where c.upto <= s.dropped_upto;
  if emptied is null then
    return 0;
  end if;
  if _patient and not gapless.is_in_long_use() then
    perform set_config('lock_timeout', least(20 * cardinality(emptied), 1000) || 'ms', true);
    lock table gapless.outbox_message_t in access exclusive mode;
  else
    lock table gapless.outbox_message_t in access exclusive mode nowait;
  end if;
  foreach each in array emptied loop
    execute format('drop table if exists gapless.%I', each);
  end loop;
  return cardinality(emptied);
end
$$;
