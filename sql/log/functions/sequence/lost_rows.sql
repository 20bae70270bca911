-- Return the first table that lacks rows which other tables need, after a restore that failed in part; null: none is
-- known. Where it is cheap each row is checked, else whether all are gone.
-- Tables that may be empty in a living schema, and to which no other table refers, are not checked: barrier,
-- queue_range, delivery, scheduled, schedule, group_pause, dedupe, latest and tables for people.
create or replace function gapless.lost_rows() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  each record;
  is_lost boolean;
begin
  for each in
    select x.lost, format('not exists (select from gapless.%I)', x.lost) as test
    from unnest(array[
      'sequencer', 'log_config', 'clock_look', 'retention_state', 'dedupe_state', 'dedupe_slot', 'expiry_clock'
    ]) x (lost)
    union all
    select x.lost, format('not exists (select from gapless.%I) and exists (select from gapless.%s)', x.lost, x.needed)
    from (values
      ('topic', 'log_segment'), ('log_segment', 'sequencer where events > 0'), ('consumer_offsets', 'lease'),
      ('dead_letter', 'dead_letter_event'),
      ('condition', 'subscription_form where condition_digest is not null'), ('attached', 'attached_row'),
      ('dead_letter_event', $t$dead_letter where state in ('waiting', 'parked', 'dead')$t$)
    ) x (lost, needed)
    union all
    select x.lost, format('exists (select %1$s from gapless.%2$s except select %1$s from gapless.%3$I)',
      x.key, x.needed, x.lost)
    from (values
      ('topic', 'consumer_group', 'topic_id'), ('topic', 'layout', 'topic_id'), ('topic', 'webhook', 'topic_id'),
      ('topic', 'compaction', 'topic_id'), ('topic', 'topic_schema', 'topic_id'), ('topic', 'chunk_end', 'topic_id'),
      ('layout', 'topic where layout > 0', 'topic_id'),
      ('consumer_group', 'consumer_offsets', 'group_id, topic_id'), ('consumer_group', 'lease', 'group_id, topic_id'),
      ('lease', 'consumer_offsets join gapless.topic using (topic_id) where epoch > 0 and partition_id < partitions',
        'group_id, topic_id, partition_id'),
      ('queue_floor', $t$lease join gapless.consumer_group using (group_id, topic_id) where mode = 'queue'$t$,
        'lease_no'),
      ('group_filter', 'filter_tally', 'group_id, topic_id'),
      ('group_filter', 'subscription_form', 'group_id, topic_id'),
      ('subscription_form', 'subscription', 'form_id'), ('subscription', 'subscription_stop', 'subscription_id'),
      ('attached', 'attached_group', 'attachment_id'),
      ('webhook', 'webhook_state', 'name')
    ) x (lost, needed, key)
  loop
    execute 'select ' || each.test into is_lost;
    if is_lost then
      return each.lost;
    end if;
  end loop;
  return null;
end
$$;
