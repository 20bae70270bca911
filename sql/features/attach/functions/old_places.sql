-- Return the place of an old consumer: the next id, for each partition of the topic. Its rows are locked, so it claims
-- nothing until the transaction ends. _said: the place as the caller gives it, where no table of places was noted.
-- Raises GL400 unless one of the two is known; GL404: it has no place; GL409: its rows are not the topic's partitions,
-- or a place is null, which may or may not be the beginning.
-- With the rights of the caller, who needs UPDATE on the table with the places.
create or replace function gapless.old_places(_attachment_id int, _group_id text, _said bigint) returns bigint[]
language plpgsql as $$
declare
  made gapless.attached := gapless.require_attachment(_attachment_id);
  spread int := (select t.partitions from gapless.topic t where t.topic_id = made.topic_id);
  numbers bigint[];
  places bigint[];
begin
  if (made.places is null) = (_said is null) then
    raise exception '%', case
      when _said is null then 'say where the old consumer is, the id that is next (--place)'
      else format('where the old consumer is is read from %s, so no place is said', made.places ->> 'table')
    end
      using errcode = 'GL400';
  elsif made.places is null then
    return array_fill(_said, array[spread]);
  end if;
  execute format(
    'select array_agg(x.part order by x.part), array_agg(x.place order by x.part) '
    'from (select %s as part, p.%I::bigint + %s as place from %s p where p.%I = $1 for update) x',
    case when made.places ->> 'partition' is null then '0::bigint'
      else format('p.%I::bigint', made.places ->> 'partition') end,
    coalesce(made.places ->> 'next', made.places ->> 'last'),
    case when made.places ? 'next' then 0 else 1 end,
    made.places ->> 'table', made.places ->> 'group'
  ) into numbers, places using _group_id;
  if places is null then
    raise exception '% has no place of "%"', made.places ->> 'table', _group_id using errcode = 'GL404';
  end if;
  if array_position(places, null) is not null then
    raise exception '"%" has a null for its place in %: write the id there that is next, or the last one it handled '
      '(0: none)', _group_id, made.places ->> 'table'
      using errcode = 'GL409';
  end if;
  if made.places ->> 'partition' is null and cardinality(places) = 1 then
    return array_fill(places[1], array[spread]);
  end if;
  if numbers <> array(select g::bigint from generate_series(0, spread - 1) g) then
    raise exception '"%" has places of partitions %, and the topic has % of them: make a topic with as many as it has',
      _group_id, array_to_string(numbers, ', '), spread
      using errcode = 'GL409';
  end if;
  return places;
end
$$;
