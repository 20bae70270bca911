-- What a receipt of take() or reserve() stands for: kind 'R', a range of the log, or 'L', a unit that was set aside.
-- Raises GL400 for what is no receipt, GL003 when its partition is gone.
create or replace function gapless.read_receipt(_receipt text)
returns table (
  kind text, lease_no int, group_id text, topic_id int, partition_id int, first_offset bigint, last_offset bigint,
  token uuid
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  part text[] := regexp_match(
    _receipt, E'^([RL])(\\d{1,9}):(\\d{1,18}):(\\d{1,18}):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$'
  );
begin
  if part is null then
    raise exception 'this is no receipt of gapless.take(): %', coalesce(left(_receipt, 100), 'null')
      using errcode = 'GL400';
  end if;
  kind := part[1];
  lease_no := part[2];
  first_offset := part[3];
  last_offset := part[4];
  token := part[5];
  select l.group_id, l.topic_id, l.partition_id into group_id, topic_id, partition_id
  from gapless.lease l where l.lease_no = part[2]::int;
  if not found then
    perform gapless.refuse_receipt(_receipt);
  end if;
  return next;
end
$$;
