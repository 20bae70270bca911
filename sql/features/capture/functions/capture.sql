-- Publish the changes of a table in the transaction that makes them: one event for each row, with one INSERT for each
-- statement. Returns the number of the capture.
--   select gapless.capture('public.orders', topic => 'orders.changes');
--   select gapless.capture('public.orders', topic => 'orders.changes', key => '{region}/{id}',
--     columns => array['id', 'region', 'total'], old => 'all');
-- source: the table as SQL spells it. key: a template of columns, in which {{ and }} are braces; default: the primary
-- key. columns: the columns of the payload; default: all columns, also those that are added later. old: the old values
-- in the event of an update: 'changed' (default) only the columns that it changed, 'all', 'none'.
-- Runs with the rights of the caller, who needs TRIGGER on the table and its partitions.
-- lock: the table and its partitions in share row exclusive mode: it waits for writers, and they wait for it.
create or replace function gapless.capture(
  source text, topic text default null, key text default null, columns text[] default null,
  old text default 'changed'
) returns int
language plpgsql as $$
declare
  made gapless.captured := gapless.checked_capture(
    capture.source, capture.topic, capture.key, capture.columns, capture.old
  );
begin
  if gapless.capture_of(made.table_id) is not null then
    raise exception '% is captured already: gapless capture remove % ends that',
      made.table_name, made.table_name
      using errcode = 'GL409';
  end if;
  made.capture_id := gapless.note_capture(made);
  perform gapless.place_capture(made.capture_id, made.table_id);
  return made.capture_id;
end
$$;
