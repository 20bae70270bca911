-- Audit an action on an attachment, with the role that did it.
create or replace function gapless.note_attach(_action text, _topic_id int, _table text, _group_id text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (_action, coalesce(_group_id, ''), _topic_id, jsonb_build_object('table', _table))
$$;
