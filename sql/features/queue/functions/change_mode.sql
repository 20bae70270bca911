-- Turn an ordered group into a queue, or the other way round, as long as it has handled nothing. Raises GL409 when it
-- has, or when a member works for it.
create or replace function gapless.change_mode(_here gapless.consumer_group, _mode text, _block int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform from gapless.consumer_group g
  where g.group_id = _here.group_id and g.topic_id = _here.topic_id
  for no key update;
  if gapless.has_begun(_here.group_id, _here.topic_id) then
    raise exception 'group "%" is %, and its mode is fixed since it began: choose another group, or drop this one',
      _here.group_id, case _here.mode when 'queue' then 'a queue' else 'ordered' end
      using errcode = 'GL409';
  end if;
  if _mode = 'queue' and exists (
    select from gapless.group_filter f
    where f.group_id = _here.group_id and f.topic_id = _here.topic_id
  ) then
    raise exception 'group "%" has a filter, and a queue takes every event: clear_filter() first', _here.group_id
      using errcode = 'GL409';
  end if;
  delete from gapless.queue_floor f
  using gapless.lease l
  where l.group_id = _here.group_id and l.topic_id = _here.topic_id and f.lease_no = l.lease_no;
  update gapless.consumer_group g
  set mode = _mode, block = case when _mode = 'queue' then _block end
  where g.group_id = _here.group_id and g.topic_id = _here.topic_id;
  if _mode = 'queue' then
    perform gapless.enter_queue(_here.group_id, _here.topic_id, _block);
  end if;
end
$$;
