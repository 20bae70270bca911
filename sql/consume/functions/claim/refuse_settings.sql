-- Raise GL005: the session's settings have changed.
create or replace function gapless.refuse_settings() returns text
language plpgsql as $$
begin
  raise exception 'a handler changed settings of the session it was given' using errcode = 'GL005';
end
$$;
