-- The rivals of a captured table: one without a trigger, one with a trigger for each row.
create sequence public.capture_ids;

create table public.captured (id bigint primary key, customer text, total numeric, note text);
create table public.untriggered (like public.captured including all);
create table public.rowwise (like public.captured including all);

create function public.publish_row() returns trigger language plpgsql as $$
begin
  insert into gapless.outbox_message_t (topic_id, key, event_type, payload)
  values (
    1, new.id::text, lower(tg_op),
    json_build_object('op', lower(tg_op), 'new', row_to_json(new), 'old', null)
  );
  return null;
end
$$;

create trigger publish_row after insert on public.rowwise
  for each row execute function public.publish_row();
