-- Record and audit that a group is shown, or (without a view) that it no longer is. False: it was so before. A part of
-- show_classic() and hide_classic().
create or replace function gapless.note_classic_group(_group_id text, _topic_id int, _view text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed int;
begin
  if _view is null then
    delete from gapless.classic_group k where k.group_id = _group_id and k.topic_id = _topic_id;
  else
    insert into gapless.classic_group (group_id, topic_id, view_name)
    values (_group_id, _topic_id, _view)
    on conflict (group_id, topic_id) do nothing;
  end if;
  get diagnostics changed = row_count;
  if changed > 0 then
    insert into gapless.audit (action, group_id, topic_id, detail)
    values (
      case when _view is null then 'classic-hide' else 'classic-show' end, _group_id, _topic_id,
      jsonb_build_object('view', _view)
    );
  end if;
  return changed > 0;
end
$$;
