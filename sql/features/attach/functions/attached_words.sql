-- Return the words behind gapless attach add TABLE that describe an attachment as it is: topic, id and map; COLUMN
-- stands for the column that is to be named instead of a missing one.
create or replace function gapless.attached_words(_made gapless.attached, _root oid) returns text
language sql stable as $$
  select (select t.name from gapless.topic t where t.topic_id = (_made).topic_id) || string_agg(
    ' ' || w.option || ' ' || case when w.said ~ '^[[:alnum:]_=,]+$' then w.said else quote_literal(w.said) end, ''
    order by w.option
  )
  from (
    select case c.what when 'id' then '--id' else '--map' end as option,
      string_agg(
        case c.what when 'id' then '' else c.what || '=' end
          || coalesce(c.now, case when c.name is null then '' else 'COLUMN' end),
        ',' order by c.what
      ) as said
    from gapless.attached_columns(_made, _root) c
    -- An empty mapping is named only where a column of that name would be taken.
    where c.name is not null or exists (
      select from pg_attribute a
      where a.attrelid = _root and a.attname = c.what and a.attnum > 0 and not a.attisdropped
    )
    group by 1
  ) w
$$;
