-- Set the number of ids in a chunk, and of ids that stand ready; counts for chunks that are created from now on.
create or replace function gapless.configure_chunks(_chunk_events bigint, _chunks_ahead int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.log_config c
  set chunk_events = _chunk_events, chunks_ahead = _chunks_ahead
  where (c.chunk_events, c.chunks_ahead)
    is distinct from (_chunk_events, _chunks_ahead)
$$;
