-- Register a table whose rows are to be copied into a topic: first the existing rows, in the order of their ids, then,
-- by a trigger, each row in the transaction that inserts it. Returns the number of the attachment. It copies nothing
-- yet: gapless attach add calls copy_attached() and go_live(), which do. The same call again returns the same number.
-- While a mapped column is missing, the call may have another map, which counts from then on.
--   select gapless.attach('public.outbox', 'orders', 'id', '{"payload": "body", "key": "customer"}', null, false);
-- source: the table as SQL spells it. id_column: by default the primary key. map: from a column of an event to a column
-- of the table; a missing entry means the column of the same name, where there is one. places: where old consumers keep
-- their positions. despite_changes: attach also a table whose rows were updated or deleted, before or later; for an
-- attached table, the call acknowledges such changes, which are reported no more.
-- Raises GL400 or GL404 for a table that cannot be attached, GL409 for a table that is attached in another way.
create or replace function gapless.attach(
  source text, topic text default null, id_column text default null, map jsonb default null,
  places jsonb default null, despite_changes boolean default false
) returns int
language plpgsql as $$
declare
  made gapless.attached := gapless.checked_attachment(
    attach.source, attach.topic, attach.id_column, attach.map, attach.places
  );
  there gapless.attached;
  lacks boolean;    -- a column to copy is missing
begin
  perform pg_advisory_xact_lock('gapless.attached'::regclass::int, made.table_id::int);
  select a.* into there from gapless.attached a where a.attachment_id = gapless.attachment_of(made.table_id);
  if there.attachment_id is null then
    perform gapless.refuse_changing(made.table_id, attach.despite_changes);
    insert into gapless.attached as a (
      table_name, table_id, topic_id, id_column, map, places, column_numbers, changes_before
    )
    values (
      made.table_name, made.table_id, made.topic_id, made.id_column, made.map, made.places,
      gapless.attached_numbers(made), case when not coalesce(attach.despite_changes, false) then 0 end
    )
    returning a.* into there;
    perform gapless.note_attach('attach', made.topic_id, made.table_name, null);
    return there.attachment_id;
  end if;
  lacks := exists (
    select from gapless.attached_columns(there, made.table_id) c where c.name is not null and c.now is null
  );
  there := gapless.attached_now(there, made.table_id);
  if (there.topic_id, there.id_column) is distinct from (made.topic_id, made.id_column)
    or there.map <> made.map and not lacks
  then
    raise exception '% is attached already, to another topic or by other columns: gapless attach remove % ends that',
      made.table_name, made.table_name
      using errcode = 'GL409';
  end if;
  update gapless.attached a
  set map = made.map, id_column = made.id_column, table_id = made.table_id,
    column_numbers = gapless.attached_numbers(made), places = coalesce(made.places, there.places),
    changes_before = case when not coalesce(attach.despite_changes, false) then there.changes_before end
  where a.attachment_id = there.attachment_id;
  if there.map <> made.map then
    perform gapless.note_attach('map', made.topic_id, made.table_name, null);
  end if;
  return there.attachment_id;
end
$$;
