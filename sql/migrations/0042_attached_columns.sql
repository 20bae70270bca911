-- An attachment knows its columns by their numbers, so that one may be renamed (functions/attach/attached_columns.sql),
-- and how many rows had been changed before, so that a change that nobody was told of is named.
alter table gapless.attached
  add column column_numbers jsonb not null default '{}',    -- of id and of what is mapped; of table table_id
  add column changes_before bigint;    -- updates and deletes that are no news; null: any is said to do no harm

update gapless.attached a
set changes_before = coalesce(pg_stat_get_tuples_updated(a.table_id) + pg_stat_get_tuples_deleted(a.table_id), 0),
  column_numbers = coalesce((
    select jsonb_object_agg(m.key, c.attnum)
    from jsonb_each_text(a.map || jsonb_build_object('id', a.id_column)) m
    join pg_attribute c on c.attrelid = a.table_id and c.attname = m.value and c.attnum > 0 and not c.attisdropped
  ), '{}');
