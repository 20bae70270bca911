-- Check deferred constraints now, and defer new checks again: for a transaction of many batches, which would check all
-- of them anew at the end of each batch. It is to be rolled back: a COMMIT stays refused.
create or replace function gapless.apply_constraints() returns void
language plpgsql as $$
declare
  deferred record;
begin
  perform set_config('gapless.finished', pg_current_xact_id()::text, true);
  set constraints all immediate;
  perform set_config('gapless.finished', '', true);
  for deferred in
    select n.nspname, c.conname
    from pg_catalog.pg_constraint c
    join pg_catalog.pg_namespace n on n.oid = c.connamespace
    where c.condeferred
  loop
    execute format('set constraints %I.%I deferred', deferred.nspname, deferred.conname);
  end loop;
end
$$;
