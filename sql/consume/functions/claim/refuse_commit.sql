-- Raise GL001: claimed events that were not declared finished must not be committed.
create or replace function gapless.refuse_commit() returns void
language plpgsql as $$
begin
  raise exception 'a gapless handler must not COMMIT: its effects commit together with the offset'
    using errcode = 'GL001',
      hint = 'SET CONSTRAINTS ALL IMMEDIATE counts as COMMIT here: name your constraints.';
end
$$;
