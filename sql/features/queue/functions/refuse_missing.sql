-- Raise GL410: the log refers to an event that does not exist.
create or replace function gapless.refuse_missing(_topic_id int, _partition_id int, _c_offset bigint) returns bigint
language plpgsql as $$
begin
  raise exception 'the event at offset % of partition % of topic id % is missing: gapless doctor says more',
    _c_offset, _partition_id, _topic_id
    using errcode = 'GL410';
end
$$;
