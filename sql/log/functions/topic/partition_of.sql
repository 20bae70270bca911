-- The partition of a key: 0 .. partitions-1.
-- bigint before abs: hashtext can return the smallest int4, whose abs does not exist.
create or replace function gapless.partition_of(key text, partitions int)
returns int
language sql
immutable strict parallel safe
as $$
  select (abs(hashtext(key)::bigint) % partitions)::int
$$;
