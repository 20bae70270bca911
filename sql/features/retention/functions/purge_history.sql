-- Remove old history that is only for people: units that were handled after all or discarded (letters_s), and actions
-- on groups (audit_s); rows_max of each. The person who discarded a unit, and the reason, go to the audit. Returns the
-- numbers of removed rows. Units that wait, or are dead, are not touched.
create or replace function gapless.purge_history(
  _letters_s double precision, _audit_s double precision, _rows_max int default 1000,
  out letters int, out audits int
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  now_ts timestamptz;
begin
  perform gapless.look_at_clock();
  now_ts := gapless.sure_clock();
  with closed as (
    select d.* from gapless.dead_letter d
    where d.state in ('redriven', 'discarded')
      and d.closed_ts < now_ts - make_interval(secs => _letters_s)
    limit _rows_max
    for update skip locked    -- a person may be mending it
  ),
  -- A group that was moved back may have set some of the offsets aside again: first_offset decides.
  events as (
    delete from gapless.dead_letter_event e using closed c
    where e.group_id = c.group_id and e.topic_id = c.topic_id and e.partition_id = c.partition_id
      and e.first_offset = c.first_offset and e.c_offset between c.first_offset and c.last_offset
  ),
  noted as (
    insert into gapless.audit (at_ts, who, action, group_id, topic_id, partition_id, detail)
    select c.closed_ts, c.discarded_by, 'discard', c.group_id, c.topic_id, c.partition_id,
      jsonb_build_object('offset', c.first_offset, 'events', c.events, 'reason', c.discard_reason)
    from closed c where c.state = 'discarded'
  )
  delete from gapless.dead_letter d using closed c
  where d.group_id = c.group_id and d.topic_id = c.topic_id and d.partition_id = c.partition_id
    and d.first_offset = c.first_offset;
  get diagnostics letters = row_count;
  delete from gapless.audit a
  where a.audit_id in (
    select x.audit_id from gapless.audit x
    where x.at_ts < now_ts - make_interval(secs => _audit_s)
    limit _rows_max
  );
  get diagnostics audits = row_count;
  perform gapless.drop_stages('{}', interval '24 hours');
end
$$;
