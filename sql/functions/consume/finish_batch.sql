-- Declare a claimed batch finished; the caller's next statement is COMMIT. Returns false when this is
-- no longer the transaction that claimed: the handler committed or rolled back by itself.
create or replace function gapless.finish_batch(claim_xid text)
returns boolean
language sql
as $$
  select case
    when pg_current_xact_id_if_assigned()::text = claim_xid
      then set_config('gapless.finished', claim_xid, true) = claim_xid
    else false
  end
$$;

-- As finish_batch(), for a handler that may have published (cause.sql). units: so often it was called;
-- what it takes in one call, a whole batch perhaps, is one.
-- Raises GL004 when it published and nobody had said what was being handled, or could say it of what
-- is published at COMMIT, by a deferred trigger.
create or replace function gapless.finish_units(claim_xid text, units int)
returns boolean
language plpgsql
as $$
begin
  perform gapless.close_chain(units);
  return gapless.finish_batch(claim_xid);
end
$$;

-- From here on, until COMMIT, nothing is published that is not known to come of one unit.
create or replace function gapless.close_chain(units int)
returns void
language plpgsql
as $$
begin
  if current_setting('gapless.chain', true) = 'untold' then
    perform gapless.refuse_untold();
  end if;
  perform set_config('gapless.chain', 'closed', true),
    case when units > 1 then set_config('gapless.cause', '', true) end;
end
$$;

-- Raises GL004: it is not known what this was published for (cause.sql).
create or replace function gapless.refuse_untold()
returns void
language plpgsql
as $$
begin
  raise exception 'a handler published, and did not say what for: gapless.cause is empty'
    using errcode = 'GL004';
end
$$;

-- Raises GL002 unless finished: for a client that sends COMMIT along, without waiting for an answer.
create or replace function gapless.require_finish(finished boolean)
returns void
language plpgsql
as $$
begin
  if not finished then
    raise exception 'the handler replaced the transaction it was given: it must not COMMIT or ROLLBACK'
      using errcode = 'GL002';
  end if;
end
$$;

-- Raises GL001: what was claimed and not declared finished must not be committed.
create or replace function gapless.refuse_commit()
returns void
language plpgsql
as $$
begin
  raise exception 'a gapless handler must not COMMIT: its effects commit together with the offset'
    using errcode = 'GL001',
      hint = 'SET CONSTRAINTS ALL IMMEDIATE counts as COMMIT here: name your constraints.';
end
$$;

-- Refuses the COMMIT of a claimed batch that was not declared finished: a handler that says COMMIT
-- would otherwise move the group's offset over events it has not seen (I6).
create or replace function gapless.refuse_early_commit()
returns trigger
language plpgsql
as $$
begin
  if new.next_offset > old.next_offset
    and current_setting('gapless.finished', true) is distinct from pg_current_xact_id()::text
    and current_setting('gapless.seeking', true) is distinct from pg_current_xact_id()::text
  then
    perform gapless.refuse_commit();
  end if;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.consumer_offsets'::regclass and t.tgname = 'refuse_early_commit'
  ) then
    create constraint trigger refuse_early_commit
      after update of next_offset on gapless.consumer_offsets
      deferrable initially deferred
      for each row execute function gapless.refuse_early_commit();
  end if;
end
$$;
