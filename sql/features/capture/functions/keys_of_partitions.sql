-- Return a key for each of so many partitions, in their order: for an event that concerns all of them.
create or replace function gapless.keys_of_partitions(_partitions int) returns text[]
language plpgsql immutable as $$
declare
  keys text[] := array_fill(null::text, array[_partitions]);
  missing int := _partitions;
  tried int := 0;
  place int;
begin
  while missing > 0 loop
    place := gapless.partition_of('truncate-' || tried, _partitions) + 1;
    if keys[place] is null then
      keys[place] := 'truncate-' || tried;
      missing := missing - 1;
    end if;
    tried := tried + 1;
  end loop;
  return keys;
end
$$;
