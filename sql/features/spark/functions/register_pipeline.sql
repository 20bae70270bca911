-- Pipelines: the place of each, and the one statement that ends a batch. A pipeline's position is that of the consumer
-- group pipeline.<name>, so status shows its lag, and retention waits for it.

-- Register a pipeline; start counts when it is new: earliest or latest. It may be called again.
create or replace function gapless.register_pipeline(_name text, _topics text[], _start text, _target text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  topic text;
begin
  insert into gapless.pipeline (name, target)
  values (_name, _target)
  on conflict (name) do update set target = excluded.target
  where pipeline.target <> excluded.target;
  foreach topic in array _topics loop
    perform gapless.create_group('pipeline.' || _name, topic, _start);
  end loop;
  update gapless.pipeline p set begun = gapless.pipeline_place(p.name)
  where p.name = _name and p.begun is null and p.batch = 0;
end
$$;
