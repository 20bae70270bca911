-- Parse a receipt of take() or reserve(): kind 'R' is a range of the log, 'L' a unit that was set aside.
-- Raises GL400 for an invalid receipt, GL003 when its partition is gone.
create or replace function gapless.read_receipt(_receipt text) returns table (
  kind text, lease_no int, group_id text, topic_id int, partition_id int, first_offset bigint, last_offset bigint,
  token uuid
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  part text[] := string_to_array(_receipt, ':');
begin
  -- MUST stay without {m,n}: a pattern that counts takes half a millisecond, longer than the rest of the answer.
  if (
    _receipt ~ '^[RL][0-9]+:[0-9]+:[0-9]+:[0-9a-f-]+$'
    and length(part[1]) <= 10 and length(part[2]) <= 18 and length(part[3]) <= 18
    and translate(part[4], '123456789abcdef', '000000000000000') = '00000000-0000-0000-0000-000000000000'
  ) is not true then
    raise exception 'this is no receipt of gapless.take(): %', coalesce(left(_receipt, 100), 'null')
      using errcode = 'GL400';
  end if;
  kind := left(part[1], 1);
  lease_no := substr(part[1], 2);
  first_offset := part[2];
  last_offset := part[3];
  token := part[4];
  select l.group_id, l.topic_id, l.partition_id into group_id, topic_id, partition_id
  from gapless.lease l where l.lease_no = read_receipt.lease_no;
  if not found then
    perform gapless.refuse_receipt(_receipt);
  end if;
  return next;
end
$$;
