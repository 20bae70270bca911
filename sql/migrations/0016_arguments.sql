-- Arguments of functions that programs call, and no person, begin with an underscore: nothing in a body
-- is taken for a column, and a function's name is not said before each of them.
-- PostgreSQL renames no argument in place. So they are dropped here and made again by their files, which
-- come next in the same transaction. Programs call them by position: those of before go on meanwhile.
-- What anybody but gapless has granted on one of them is to be granted again.
do $$
declare
  names text[] := regexp_split_to_array(trim('
    acquire add_partitions advance_offset announce beat blockers break_sequencer break_zombie
    chain_units check_target checked_offset checked_time claim claim_ahead claim_at claim_events
    claim_letter close_chain configure_chunks create_replay create_trial cut dead_letter
    dedupe_find dedupe_longest disown drain_member drop_emptied_chunks drop_stages end_batch
    enter_layout evict fence_batch finish_batch finish_letter finish_units floor_is_late
    forget_attempt forget_deliveries forget_segments forget_try group_partitions has_finished
    hold_start holds_keys install_fence is_ahead is_behind is_finished is_paused join_group
    join_groups key_digest key_heads key_partitions last_base lay_out layout_of leave_group
    letter_failed letters_due letters_from list_unrouted live_members lock_fence lock_keys
    lock_letter log_ends log_first move_offset note_deliveries note_pipeline offset_since
    offsets_of open_stage owes_letters parked_after parked_behind pass_barrier pipeline_place
    pipeline_runs plan plan_files publish_stage purge_history reasons_to_keep rebase
    record_attempt record_position record_try register_pipeline release release_keys reopen
    report_error require_finish require_read_committed require_settings reset_pipeline
    restore_settings retire segment_since segments_from sessions_needed set_aside settle_parked
    skip_overrun stamp states_aside stop_beyond stop_restored sum_letters sync take_replay
    tell_group timeline_at timeline_of torn_unit transaction_fate unit_end unit_keys unit_start
    unit_state unpark user_marks user_unit_end user_units watch why_open works xid_of
  '), '\s+');
  each regprocedure;
begin
  -- The view that calls one of them stays, for what people made of it, empty until its file comes.
  if to_regclass('gapless.waits') is not null then
    create or replace view gapless.waits as
    select c.group_id, t.name as topic, c.partition_id, '{}'::int[] as waits_for, c.topic_id
    from gapless.consumer_offsets c
    join gapless.topic t using (topic_id)
    where false;
  end if;
  for each in
    select p.oid from pg_proc p
    where p.pronamespace = 'gapless'::regnamespace and p.proname = any (names)
  loop
    execute format('drop function %s', each);
  end loop;
end
$$;
