-- Return a host_id as publish() stores it, and as order_key() reads one from a plain INSERT: a UUID in lower case,
-- without braces. Without a key the host_id keeps events in order, and one host in two spellings would be in two
-- partitions. Any other text, also a key, stays as it is.
create or replace function gapless.canonical_host(host_id text) returns text
language sql immutable parallel safe as $$
  select case
    when host_id ~ E'^\\{?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\\}?$'
      and starts_with(host_id, '{') = (right(host_id, 1) = '}')
      then lower(btrim(host_id, '{}'))
    else host_id
  end
$$;
