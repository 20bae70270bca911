-- Remove a pipeline, its position, and retention's wait for it; its output stays, and so does the log. The caller holds
-- the pipeline's run lock. gapless.audit keeps its definition and its position.
-- locks: the pipeline's row, the topics', then as drop_group()
create or replace function gapless.remove_pipeline(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  here gapless.pipeline;
begin
  delete from gapless.pipeline p where p.name = remove_pipeline.name returning * into here;
  insert into gapless.audit (action, group_id, topic_id, detail)
  select 'remove-pipeline', 'pipeline.' || remove_pipeline.name, t.topic_id,
    jsonb_build_object(
      'target', here.target, 'events', here.events, 'batch', here.batch, 'files', here.files,
      'archive', coalesce(t.archive = remove_pipeline.name, false)
    )
  from gapless.topic t
  where t.archive = remove_pipeline.name or exists (
    select from gapless.consumer_group g
    where g.group_id = 'pipeline.' || remove_pipeline.name and g.topic_id = t.topic_id
  );
  update gapless.topic t set archive = null where t.archive = remove_pipeline.name;
  perform gapless.drop_group('pipeline.' || remove_pipeline.name);
end
$$;
