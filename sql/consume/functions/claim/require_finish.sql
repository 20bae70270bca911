-- Raise GL002 unless finished: for a client that sends COMMIT along, without waiting for an answer.
create or replace function gapless.require_finish(_finished boolean) returns void
language plpgsql as $$
begin
  if not _finished then
    raise exception 'the handler replaced the transaction it was given: it must not COMMIT or ROLLBACK'
      using errcode = 'GL002';
  end if;
end
$$;
