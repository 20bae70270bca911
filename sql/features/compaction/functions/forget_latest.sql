-- Remove at most rows_max rows of a topic that is no longer compacted; with the last row its compaction. Returns the
-- number of removed rows, with the end counted as one. A part of compact().
-- locks: its compaction rows; 0 when another session has one
create or replace function gapless.forget_latest(_topic_id int, _rows_max bigint) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  parts bigint;
  gone bigint;
begin
  select count(*) into parts from (
    select from gapless.compaction c where c.topic_id = _topic_id for update skip locked
  ) c;
  -- MUST come after the locks: earlier steps have ended, and a new compaction is visible.
  if parts <> (select count(*) from gapless.compaction c where c.topic_id = _topic_id)
    or (select t.compacted from gapless.topic t where t.topic_id = _topic_id)
  then
    return 0;
  end if;
  delete from gapless.latest l
  where (l.topic_id, l.key_digest) in (
    select x.topic_id, x.key_digest from gapless.latest x where x.topic_id = _topic_id limit _rows_max
  );
  get diagnostics gone = row_count;
  if gone < _rows_max then
    delete from gapless.compaction c where c.topic_id = _topic_id;
    gone := gone + 1;
  end if;
  return gone;
end
$$;
