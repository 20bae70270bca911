-- Grants of Spark. To publish the events of staged tasks is to publish; only operators may remove a pipeline.
do $$
begin
  revoke execute on function
    gapless.open_stage, gapless.publish_stage, gapless.drop_stages, gapless.drop_job_stages, gapless.fence_batch,
    gapless.remove_pipeline
    from gapless_consumer;
  grant execute on function
    gapless.open_stage, gapless.publish_stage, gapless.drop_stages, gapless.drop_job_stages, gapless.fence_batch
    to gapless_producer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
