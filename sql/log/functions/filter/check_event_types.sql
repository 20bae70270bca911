-- Raise GL400 unless a filter may have these event types (set_filter.sql). Three wildcards: with more of them, there
-- are more ways to match a long text.
create or replace function gapless.check_event_types(_event_types text[]) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  wrong text;
begin
  if _event_types is null then
    return;
  end if;
  if array_ndims(_event_types) is distinct from 1 or cardinality(_event_types) > 100 then
    raise exception 'a filter has 1 to 100 event types in a list, not %', cardinality(_event_types)
      using errcode = 'GL400';
  end if;
  select coalesce(t, 'null') into wrong from unnest(_event_types) t
  where t is null or length(t) not between 1 and 200 or length(t) - length(replace(t, '*', '')) > 3
  limit 1;
  if found then
    raise exception 'event type "%" of a filter: 1 to 200 characters, at most 3 of them *', left(wrong, 100)
      using errcode = 'GL400';
  end if;
end
$$;
