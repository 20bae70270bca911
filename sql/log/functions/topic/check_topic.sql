-- Raise GL400 for an invalid topic name, or number of partitions.
create or replace function gapless.check_topic(_name text, _partitions int) returns void
language plpgsql immutable as $$
begin
  if (_name ~ '^[A-Za-z0-9._-]{1,249}$') is not true then
    raise exception '"%" is not a topic name: use 1 to 249 letters, digits, dots, dashes and underscores',
      left(_name, 100)
      using errcode = 'GL400';
  end if;
  if (_partitions between 1 and 4096) is not true then
    raise exception 'topic "%": partitions must be from 1 to 4096, not %', _name, _partitions
      using errcode = 'GL400';
  end if;
end
$$;
