-- Return the key of a topic in one slot; no row when it is not there. It touches only this slot: over the whole table a
-- plan would lock all slots until the publisher commits, and a slot that publishers have locked cannot be emptied.
create or replace function gapless.dedupe_find(_slot int, _topic_id int, _dedupe_key text) returns setof gapless.dedupe
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off    -- for a slot that was empty when the plan was made
set jit = off as $$
begin
  case _slot
    when 0 then
      return query select d.* from gapless.dedupe_0 d
      where d.topic_id = _topic_id and d.dedupe_key = _dedupe_key;
    when 1 then
      return query select d.* from gapless.dedupe_1 d
      where d.topic_id = _topic_id and d.dedupe_key = _dedupe_key;
    when 2 then
      return query select d.* from gapless.dedupe_2 d
      where d.topic_id = _topic_id and d.dedupe_key = _dedupe_key;
    when 3 then
      return query select d.* from gapless.dedupe_3 d
      where d.topic_id = _topic_id and d.dedupe_key = _dedupe_key;
  end case;
end
$$;
