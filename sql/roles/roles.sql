-- Three group roles; grant them to the roles as which your programs log in. Roles belong to the whole cluster: without
-- the right to create them (CREATEROLE) they are skipped, and the owner does everything.
-- A producer may not set xid, id or created_ts: offsets and order rest on them.
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
  grant select on gapless.topic, gapless.topic_schema, gapless.migration to gapless_producer, gapless_consumer;
  grant execute on function
    gapless.publish, gapless.publish_once, gapless.publish_each, gapless.publish_request, gapless.publish_from,
    gapless.publish_some_from, gapless.topic_id, gapless.transaction_uuid, gapless.wake_sequencer,
    gapless.sequencer_polls, gapless.partition_of, gapless.order_key, gapless.canonical_host,
    gapless.timeline, gapless.cause_uuid, gapless.own_transaction_id, gapless.tell_cause,
    gapless.refuse_untold, gapless.publish_later, gapless.deliver_time, gapless.cancel,
    gapless.direct_headers, gapless.refuse_headers, gapless.request, gapless.reply, gapless.reply_uuid,
    gapless.wait_reply
    to gapless_producer;

  grant select on all tables in schema gapless to gapless_consumer, gapless_operator;
  grant execute on all functions in schema gapless to gapless_consumer, gapless_operator;
  -- To publish the events of staged tasks is to publish.
  revoke execute on function
    gapless.open_stage, gapless.publish_stage, gapless.drop_stages, gapless.fence_batch
    from gapless_consumer;
  grant execute on function
    gapless.open_stage, gapless.publish_stage, gapless.drop_stages, gapless.fence_batch
    to gapless_producer;
  revoke execute on function gapless.set_partitions, gapless.add_partitions, gapless.set_direct from gapless_consumer;
  -- They insert as the owner; dedupe_find() is a part of it.
  revoke execute on function
    gapless.publish_once, gapless.dedupe_find, gapless.publish_later, gapless.schedule_event, gapless.cancel
    from gapless_consumer;
  -- Parts of sequence_events(): alone, they would take any state for the last run's (I1, I4).
  revoke execute on function gapless.rebase, gapless.sequence_few, gapless.sequence_many
    from gapless_consumer, gapless_operator;
  -- Parts of promote(): alone, they would take any time for the present (S1).
  revoke execute on function gapless.move_due, gapless.fire_schedules
    from gapless_consumer, gapless_operator;
  -- Manual actions of operators; a handler's role may not use them.
  revoke execute on function
    gapless.pause, gapless.resume, gapless.seek, gapless.move_offset, gapless.drop_group,
    gapless.restore_offsets, gapless.skip_hole, gapless.skip_missing, gapless.tell_skip, gapless.remove_pipeline,
    gapless.redrive_letter, gapless.discard_letter, gapless.mend_letter, gapless.forget_letters,
    gapless.set_retention, gapless.set_dedupe_window, gapless.set_expiry,
    gapless.adopt_topic, gapless.discard_unrouted, gapless.list_unrouted,
    gapless.add_schedule, gapless.pause_schedule, gapless.resume_schedule, gapless.remove_schedule,
    gapless.run_schedule, gapless.create_api_key, gapless.revoke_api_key,
    gapless.add_webhook, gapless.remove_webhook, gapless.pause_webhook, gapless.resume_webhook,
    gapless.replay_webhook,
    gapless.capture, gapless.release_capture, gapless.mend_capture, gapless.capture_rows,
    gapless.note_capture, gapless.renew_capture, gapless.forget_capture,
    gapless.subscribe, gapless.unsubscribe, gapless.renew_subscription, gapless.lock_subscriptions,
    gapless.begin_subscriptions, gapless.forget_subscription, gapless.forget_form, gapless.resume_subscription,
    gapless.set_missed_aside, gapless.make_condition,
    gapless.drop_condition,
    gapless.set_schema, gapless.remove_schema,
    gapless.show_classic, gapless.hide_classic, gapless.note_classic_group, gapless.lock_classic,
    gapless.notify_classic, gapless.silence_classic, gapless.set_compaction, gapless.forget_latest, gapless.end_client
    from gapless_consumer;
  -- An attachment reads and writes with an operator's own rights, on other tables too.
  grant insert, update, delete
    on gapless.attached, gapless.attached_row, gapless.attached_miss, gapless.attached_group
    to gapless_operator;
  revoke execute on function
    gapless.attach, gapless.detach, gapless.attach_rows, gapless.note_attach, gapless.hold_still
    from gapless_consumer;
  -- Only the creator of the roles may do that; the owner of a second database need not.
  if not pg_has_role('gapless_operator', 'gapless_producer', 'member') then
    grant gapless_producer to gapless_operator;
  end if;
end
$$;
