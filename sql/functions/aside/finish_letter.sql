-- Declare a claimed unit handled; the caller's next statement is COMMIT. Returns false when this is no
-- longer the transaction that claimed it. Who was parked behind it follows. A unit that was dead stays
-- as 'redriven'; of one that only waited nothing is kept.
create or replace function gapless.finish_letter(
  group_id text, topic_id int, partition_id int, first_offset bigint, claim_xid text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
  if pg_current_xact_id_if_assigned()::text is distinct from finish_letter.claim_xid then
    return false;
  end if;
  perform gapless.release_keys(
    finish_letter.group_id, finish_letter.topic_id, finish_letter.partition_id,
    finish_letter.first_offset
  );
  with forgotten as (
    delete from gapless.dead_letter d
    where d.group_id = finish_letter.group_id and d.topic_id = finish_letter.topic_id
      and d.partition_id = finish_letter.partition_id
      and d.first_offset = finish_letter.first_offset and d.died_ts is null
    returning d.first_offset, d.last_offset
  )
  delete from gapless.dead_letter_event e
  using forgotten f
  where e.group_id = finish_letter.group_id and e.topic_id = finish_letter.topic_id
    and e.partition_id = finish_letter.partition_id
    and e.c_offset between f.first_offset and f.last_offset and e.first_offset = f.first_offset;
  return gapless.finish_units(finish_letter.claim_xid, 1);
end
$$;
