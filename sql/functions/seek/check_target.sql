-- Raise unless there is exactly one target, and it makes sense without looking at a partition.
create or replace function gapless.check_target(
  group_id text, to_end text, to_offset bigint, to_time timestamptz, to_transaction uuid
)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  covered int[];
begin
  if num_nonnulls(to_end, to_offset, to_time, to_transaction) <> 1 then
    raise exception 'where to? Say one of earliest, latest, an offset, a time, a transaction'
      using errcode = 'GL400';
  end if;
  if to_end not in ('earliest', 'latest') then
    raise exception 'a group can go to earliest or latest, not to %', to_end using errcode = 'GL400';
  end if;
  if to_time > clock_timestamp() then
    raise exception '% is in the future: the database''s clock says %',
      gapless.stamp(to_time), gapless.stamp(clock_timestamp())
      using errcode = 'GL400';
  end if;
  if to_transaction is null then
    return;
  end if;
  select array_agg(g.topic_id) into covered
  from gapless.consumer_group g where g.group_id = check_target.group_id;
  if exists (select from gapless.locate(to_transaction, covered) l where l.partition_id is null) then
    raise exception 'transaction % has no offsets yet: the sequencer has not come to it', to_transaction
      using errcode = 'GL409';
  end if;
  if covered is not null and not exists (select from gapless.locate(to_transaction, covered)) then
    raise exception 'no event of transaction % is in a topic of group "%"', to_transaction, group_id
      using errcode = 'GL404';
  end if;
end
$$;
