-- Three group roles; grant them to the roles as which your programs log in. Roles belong to the whole cluster: without
-- the right to create them (CREATEROLE) they are skipped, and the owner does everything.
-- A producer may not set xid, id or created_ts: offsets and order rest on them.
-- Grants of a feature are in its room, features/<name>/roles/, and are applied after these.
do $$
declare
  wanted text;
begin
  foreach wanted in array array['gapless_producer', 'gapless_consumer', 'gapless_operator'] loop
    if not exists (select from pg_roles r where r.rolname = wanted) then
      begin
        execute format('create role %I nologin', wanted);
      exception
        when insufficient_privilege then
          raise warning 'role % was not made: % may not create roles', wanted, current_user;
          return;
        when duplicate_object or unique_violation then
          null;    -- another database of this cluster was faster
      end;
    end if;
  end loop;

  revoke all on all functions in schema gapless from public;
  grant usage on schema gapless to gapless_producer, gapless_consumer, gapless_operator;

  grant insert (topic_id, key, host_id, user_id, transaction_id, event_type, payload, headers,
    cause, correlation)
    on gapless.outbox_message_t to gapless_producer;
  grant usage on sequence gapless.outbox_message_id_seq to gapless_producer;
  grant select on gapless.topic, gapless.migration to gapless_producer, gapless_consumer;
  grant execute on function
    gapless.publish, gapless.publish_once, gapless.publish_each, gapless.publish_request, gapless.publish_from,
    gapless.publish_some_from, gapless.topic_id, gapless.transaction_uuid, gapless.wake_sequencer,
    gapless.sequencer_polls, gapless.partition_of, gapless.order_key, gapless.canonical_host,
    gapless.timeline, gapless.cause_uuid, gapless.own_transaction_id, gapless.tell_cause,
    gapless.refuse_untold, gapless.refuse_headers
    to gapless_producer;

  grant select on all tables in schema gapless to gapless_consumer, gapless_operator;
  grant execute on all functions in schema gapless to gapless_consumer, gapless_operator;
  revoke execute on function gapless.set_partitions, gapless.add_partitions from gapless_consumer;
  -- It inserts as the owner.
  revoke execute on function gapless.publish_once from gapless_consumer;
  -- Parts of sequence_events(): alone, they would take any state for the last run's (I1, I4).
  revoke execute on function gapless.rebase, gapless.sequence_few, gapless.sequence_many
    from gapless_consumer, gapless_operator;
  -- Manual actions of operators; a handler's role may not use them.
  revoke execute on function
    gapless.pause, gapless.resume, gapless.seek, gapless.move_offset, gapless.drop_group,
    gapless.restore_offsets, gapless.skip_hole, gapless.tell_skip,
    gapless.redrive_letter, gapless.discard_letter, gapless.mend_letter, gapless.forget_letters,
    gapless.adopt_topic, gapless.discard_unrouted, gapless.list_unrouted
    from gapless_consumer;
  -- Only the creator of the roles may do that; the owner of a second database need not.
  if not pg_has_role('gapless_operator', 'gapless_producer', 'member') then
    grant gapless_producer to gapless_operator;
  end if;
end
$$;
