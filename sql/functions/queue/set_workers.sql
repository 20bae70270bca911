-- Say how many workers a supervisor runs for a queue group; null: none of that kind.
create or replace function gapless.set_workers(_member_id uuid, _group_id text, _topic_id int, _workers int)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.member_group m set workers = _workers
  where m.member_id = _member_id and m.group_id = _group_id and m.topic_id = _topic_id
$$;
