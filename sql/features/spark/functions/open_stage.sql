-- Stages: tasks of a cluster leave their events there until the batch is complete. Unlogged: they cost no WAL, and a
-- reader counts the rows, since a crash of the server empties them.

-- Create the stage of an attempt, and return the name of its table for COPY. In the same transaction as the COPY, so
-- that an attempt that dies leaves nothing.
create or replace function gapless.open_stage(_token uuid) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := 'stage_' || replace(_token::text, '-', '');
begin
  insert into gapless.stage (token) values (_token);
  execute format(
    'create unlogged table gapless.%I (topic_id int, key text, host_id text, user_id text,'
    ' transaction_id uuid, event_type text, payload json, headers jsonb)',
    name);
  execute format('grant insert on gapless.%I to %I', name, session_user);
  return name;
end
$$;
