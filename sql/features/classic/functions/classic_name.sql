-- Return the name of a view as SQL spells it, with its schema. Raises GL400 for an invalid name, GL404 for an unknown
-- schema.
create or replace function gapless.classic_name(_said text) returns text
language plpgsql stable as $$
declare
  parts text[];
begin
  begin
    parts := parse_ident(_said);
  exception
    when others then
      parts := null;
  end;
  if parts is null or cardinality(parts) <> 2 or octet_length(parts[2]) > 63 then
    raise exception '"%" is no name of a view: write it as SQL does, with its schema, such as public.consumer_offsets',
      _said
      using errcode = 'GL400';
  elsif parts[1] = 'gapless' then
    raise exception 'schema % is that of gapless: show groups in one of your own', parts[1] using errcode = 'GL400';
  elsif not exists (select from pg_namespace n where n.nspname = parts[1]) then
    raise exception 'there is no schema "%"', parts[1] using errcode = 'GL404';
  end if;
  return format('%I.%I', parts[1], parts[2]);
end
$$;
