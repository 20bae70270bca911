-- Return the partition of a key, from 0 to partitions - 1.
-- bigint before abs: hashtext can return the smallest int4, whose abs does not exist.
create or replace function gapless.partition_of(key text, partitions int) returns int
language sql immutable strict parallel safe as $$
  select (abs(hashtext(key)::bigint) % partitions)::int
$$;
