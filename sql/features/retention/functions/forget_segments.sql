-- Delete at most segments_max segments whose events are gone; returns their number, 0 when there is none. The last one
-- of a partition stays: it determines the next offset (I3). So does one with an event that is still there, in a later
-- chunk or in the default one: to a re-base, an event that is in no segment is one that has no offset yet.
create or replace function gapless.forget_segments(_segments_max int default 10000) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  gone_upto bigint;      -- events with ids below are gone
  part record;
  here int;
  forgotten int := 0;
begin
  select least(s.dropped_upto, (select min(o.id) from gapless.outbox_message_default o))
  into gone_upto from gapless.retention_state s;
  for part in
    select l.*, gapless.last_base(l.topic_id, l.partition_id) as last_base from gapless.log_start l
  loop
    delete from gapless.log_segment d
    where (d.topic_id, d.partition_id, d.base_offset) in (
      select s.topic_id, s.partition_id, s.base_offset
      from gapless.log_segment s
      where s.topic_id = part.topic_id and s.partition_id = part.partition_id
        and s.base_offset < least(part.first_offset, part.last_base)
        and s.last_offset < part.first_offset
        and (select max(i) from unnest(s.message_ids) i) < gone_upto
      limit _segments_max - forgotten
    );
    get diagnostics here = row_count;
    forgotten := forgotten + here;
    exit when forgotten >= _segments_max;
  end loop;
  return forgotten;
end
$$;
