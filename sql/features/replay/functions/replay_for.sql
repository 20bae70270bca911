-- Let a scratch group take the direct messages of another group, whose handler it replays.
create or replace function gapless.replay_for(_group_id text, _topic_id int, _for text) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update gapless.consumer_group g set stands_for = _for
  where g.group_id = _group_id and g.topic_id = _topic_id and g.is_scratch
    and g.stands_for is distinct from _for
$$;
