-- Grants of scheduled events. Producers publish and cancel them; only operators may make schedules.
do $$
begin
  grant execute on function gapless.publish_later, gapless.deliver_time, gapless.cancel to gapless_producer;
  -- They insert as the owner.
  revoke execute on function gapless.publish_later, gapless.schedule_event, gapless.cancel from gapless_consumer;
  -- Parts of promote(): alone, they would take any time for the present (S1).
  revoke execute on function gapless.move_due, gapless.fire_schedules from gapless_consumer, gapless_operator;
  revoke execute on function
    gapless.add_schedule, gapless.pause_schedule, gapless.resume_schedule, gapless.remove_schedule,
    gapless.run_schedule
    from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
