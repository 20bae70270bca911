-- Return the key of the advisory lock (7427006) of a block of a queue group's partition. Two blocks that share a key by
-- chance, in different partitions, are taken one after the other: a delay without harm.
create or replace function gapless.block_key(_lease_no int, _block_no bigint) returns int
language sql immutable as $$
  select ((_lease_no::bigint * 1000003 + _block_no) & 2147483647)::int
$$;
