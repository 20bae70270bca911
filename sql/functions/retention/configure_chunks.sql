-- Set how many ids a chunk holds and how many stand ready; counts for chunks made from now on.
create or replace function gapless.configure_chunks(chunk_events bigint, chunks_ahead int)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.log_config c
  set chunk_events = configure_chunks.chunk_events, chunks_ahead = configure_chunks.chunks_ahead
  where (c.chunk_events, c.chunks_ahead)
    is distinct from (configure_chunks.chunk_events, configure_chunks.chunks_ahead)
$$;
