-- Return the numbers of the columns of an attachment by their purpose, the id's too; without missing ones.
create or replace function gapless.attached_numbers(_made gapless.attached) returns jsonb
language sql stable as $$
  select coalesce(jsonb_object_agg(m.key, a.attnum), '{}')
  from jsonb_each_text((_made).map || jsonb_build_object('id', (_made).id_column)) m
  join pg_attribute a
    on a.attrelid = (_made).table_id and a.attname = m.value and a.attnum > 0 and not a.attisdropped
$$;
