-- Tell whether a session waits for the default chunk (want_default_chunk.sql), and it has an event between the lowest
-- and the highest of these ids. Then a reader in a transaction that lasts releases it at once: by events_of(), or in a
-- block that ends with GL000.
-- plan: inlined. MUST NOT lock anything where no session waits: all claims ask, and would wait while a chunk is made.
create or replace function gapless.is_in_default(_ids bigint[]) returns boolean
language sql as $$
  select to_regclass('gapless.default_wanted') is not null and gapless.default_holds(_ids)
$$;
