-- Fail now if a deferred constraint would fail at COMMIT, while the savepoint of the unit that broke
-- it can still be rolled back. The checks run in a subtransaction that is always undone, so that the
-- constraints are deferred again for the next unit, and are checked once more at COMMIT.
create or replace function gapless.check_constraints()
returns void
language plpgsql
as $$
begin
  begin
    perform set_config('gapless.finished', pg_current_xact_id()::text, true);
    set constraints all immediate;
    raise exception using errcode = 'GL000';
  exception when sqlstate 'GL000' then
    null;
  end;
end
$$;

-- Check what is deferred now and for good, and defer again what comes: for a transaction of many batches,
-- which would check all of them anew at the end of each. It is to be rolled back: a COMMIT stays refused.
create or replace function gapless.apply_constraints()
returns void
language plpgsql
as $$
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
