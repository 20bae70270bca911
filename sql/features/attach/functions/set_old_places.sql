-- Write where an old consumer is to continue, the next id for each partition; null: nowhere, its place goes beyond all
-- ids. With the rights of the caller, who needs UPDATE on the table with the places. A part of succeed_consumer().
create or replace function gapless.set_old_places(_made gapless.attached, _group_id text, _places bigint[]) returns void
language plpgsql as $$
declare
  places jsonb := (_made).places;
  named text := coalesce(places ->> 'next', places ->> 'last');
  beyond bigint;
begin
  if places is null then
    return;
  end if;
  select case a.atttypid
    when 'int2'::regtype then 32766
    when 'int4'::regtype then 2147483646
    else 9000000000000000000
  end into beyond
  from pg_attribute a where a.attrelid = gapless.table_of(places ->> 'table') and a.attname = named;
  execute format(
    'update %s p set %I = coalesce($2[%s + 1] - %s, $3) where p.%I = $1',
    places ->> 'table', named,
    case when places ->> 'partition' is null then '0' else format('p.%I', places ->> 'partition') end,
    case when places ? 'next' then 0 else 1 end,
    places ->> 'group'
  ) using _group_id, _places, beyond;
end
$$;
