-- Merge neighbouring finished ranges into one; fewer than 64 are not worth it.
create or replace function gapless.merge_ranges(_lease_no int, _first_offset bigint, _last_offset bigint, _rows int)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
begin
  if _first_offset is null or _rows < 64 then
    return;
  end if;
  delete from gapless.queue_range r
  where r.lease_no = _lease_no and r.first_offset > _first_offset and r.first_offset <= _last_offset;
  update gapless.queue_range r set last_offset = _last_offset
  where r.lease_no = _lease_no and r.first_offset = _first_offset;
end
$$;
