-- Note that the rows of a table are to be copied into a topic: those that are there, in the order of their ids, then,
-- by a trigger, each in the transaction that inserts it. Returns the number of the attachment; copies nothing yet:
-- copy_attached() and go_live() do, which gapless attach add calls. Again with the same words: the same number.
--   select gapless.attach('public.outbox', 'orders', 'id', '{"payload": "body", "key": "customer"}', null, false);
-- source: the table as SQL spells it. id_column: default, the primary key. map: column of an event to column of the
-- table; those that it lacks are mapped to the column of the same name, where there is one. places: where old
-- consumers say how far they are. despite_changes: also a table whose rows were updated or deleted.
-- Raises GL400, GL404 for what cannot be attached, GL409 for a table that is attached in another way.
create or replace function gapless.attach(
  source text, topic text default null, id_column text default null, map jsonb default null,
  places jsonb default null, despite_changes boolean default false
)
returns int
language plpgsql
as $$
declare
  made gapless.attached := gapless.checked_attachment(
    attach.source, attach.topic, attach.id_column, attach.map, attach.places
  );
  there gapless.attached;
begin
  perform pg_advisory_xact_lock('gapless.attached'::regclass::int, made.table_id::int);
  select a.* into there from gapless.attached a where a.attachment_id = gapless.attachment_of(made.table_id);
  if there.attachment_id is null then
    perform gapless.refuse_changing(made.table_id, attach.despite_changes);
    insert into gapless.attached as a (table_name, table_id, topic_id, id_column, map, places)
    values (made.table_name, made.table_id, made.topic_id, made.id_column, made.map, made.places)
    returning a.* into there;
    perform gapless.note_attach('attach', made.topic_id, made.table_name, null);
  elsif (there.topic_id, there.id_column, there.map) is distinct from (made.topic_id, made.id_column, made.map) then
    raise exception '% is attached already, to another topic or by other columns: gapless attach remove % ends that',
      made.table_name, made.table_name
      using errcode = 'GL409';
  elsif made.places is not null and made.places is distinct from there.places then
    update gapless.attached a set places = made.places where a.attachment_id = there.attachment_id;
  end if;
  return there.attachment_id;
end
$$;
