-- Return the reasons why the events of a chunk stay, for people; no row: they may go. is_behind: for a consumer that
-- has not reached them. A dead letter is no reason, because it has its events with it (I9); nor is a replay. Ages are
-- seconds on the database's clock, as far as that is sure (sure_clock.sql): an interval of days would depend on a time
-- zone.
create or replace function gapless.reasons_to_keep(_upto bigint) returns table (reason text, is_behind boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.why_open(_upto), false
  from gapless.retention_state s
  where _upto > s.closed_upto
    and not exists (select from gapless.unrouted u where u.first_id < _upto)
  union all
  select 'it has events of ' || case u.topic_id when 0 then 'further topic ids' else 'topic id ' || u.topic_id end
    || ' that nobody made: gapless topics adopt, or gapless topics discard',
    true
  from gapless.unrouted u
  where u.first_id < _upto
  union all
  select coalesce(
    'topic ' || t.name || ' keeps events until '
      || gapless.stamp(max(e.newest_ts) + make_interval(secs => extract(epoch from t.retention)::float8))
        || case when extract(epoch from clock_timestamp() - max(e.newest_ts)) > extract(epoch from t.retention) then
          ', and an hour longer: the clock went ahead, or no supervisor looked for some time' else '' end,
    'topic ' || t.name || ' keeps its events forever: it has no retention'),
    false
  from gapless.chunk_end e
  join gapless.topic t using (topic_id)
  where e.upto = _upto
  group by t.topic_id
  having (extract(epoch from (select gapless.sure_clock()) - max(e.newest_ts)) > extract(epoch from t.retention))
    is not true
  union all
  select case when p.name is null then 'group ' || g.group_id || ' has yet to handle '
      else 'pipeline ' || p.name || ' has yet to read ' end
    || sum(e.next_offset - coalesce(greatest(c.next_offset, c.latest_upto), 1)) || ' events of ' || t.name
    || case
      when p.name is not null then
        case when gapless.pipeline_runs(p.name) then '' else
          case when p.error is null then ', and does not run' else ', and has failed' end
          || ': gapless pipeline run ' || p.name || ', or gapless pipeline remove ' || p.name
        end
      when exists (
        select from gapless.lease l
        where l.group_id = g.group_id and l.topic_id = t.topic_id and l.owner is not null
      ) then '' else ', and no worker serves it' end,
    true
  from gapless.chunk_end e
  join gapless.topic t using (topic_id)
  join gapless.consumer_group g using (topic_id)
  left join gapless.all_offsets c using (group_id, topic_id, partition_id)
  left join gapless.pipeline p on g.group_id = 'pipeline.' || p.name
  where e.upto = _upto and not g.is_scratch
    and g.group_id <> all (t.overrun)
    and coalesce(greatest(c.next_offset, c.latest_upto), 1) < e.next_offset
  group by g.group_id, t.topic_id, p.name
  union all
  select h.reason, h.is_behind from gapless.chunk_holds h where h.upto = _upto
$$;
