-- Raise GL004: the cause of a published event is unknown (tell_cause()).
create or replace function gapless.refuse_untold() returns void
language plpgsql as $$
begin
  raise exception 'a handler published without a cause: gapless.cause is empty'
    using errcode = 'GL004';
end
$$;
