-- Raise unless there is exactly one target, and it makes sense without looking at a partition.
create or replace function gapless.check_target(
  _group_id text, _to_end text, _to_offset bigint, _to_time timestamptz, _to_transaction uuid
) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  covered int[];
begin
  if num_nonnulls(_to_end, _to_offset, _to_time, _to_transaction) <> 1 then
    raise exception 'where to? Say one of earliest, latest, an offset, a time, a transaction'
      using errcode = 'GL400';
  end if;
  if _to_end not in ('earliest', 'latest') then
    raise exception 'a group can go to earliest or latest, not to %', _to_end using errcode = 'GL400';
  end if;
  if _to_time > clock_timestamp() then
    raise exception '% is in the future: the database''s clock says %',
      gapless.stamp(_to_time), gapless.stamp(clock_timestamp())
      using errcode = 'GL400';
  end if;
  if _to_transaction is null then
    return;
  end if;
  select array_agg(g.topic_id) into covered
  from gapless.consumer_group g where g.group_id = _group_id;
  if exists (select from gapless.locate(_to_transaction, covered) l where l.partition_id is null) then
    raise exception 'transaction % has no offsets yet: the sequencer has not come to it', _to_transaction
      using errcode = 'GL409';
  end if;
  if covered is not null and not exists (select from gapless.locate(_to_transaction, covered)) then
    raise exception 'no event of transaction % is in a topic of group "%"', _to_transaction, _group_id
      using errcode = 'GL404';
  end if;
end
$$;
