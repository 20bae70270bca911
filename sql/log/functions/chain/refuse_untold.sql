-- Raise GL004: the cause of a published event is unknown (tell_cause()).
create or replace function gapless.refuse_untold() returns void
language plpgsql as $$
begin
  raise exception 'a handler published, and did not say what for: gapless.cause is empty'
    using errcode = 'GL004';
end
$$;
