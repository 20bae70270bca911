-- Create the triggers of a captured table again where they are missing or disabled, or for a partition that is newer
-- than they are, and note the present names of its columns. Returns the number of triggers that were created or
-- enabled.
--   select gapless.mend_capture('public.orders');
-- Changes that were made in between are not in the topic. Runs with the rights of the caller: the table's owner.
create or replace function gapless.mend_capture(source text) returns int
language plpgsql as $$
declare
  root oid := gapless.table_of(mend_capture.source);
  number int := gapless.capture_of(root);
  placed int;
begin
  if number is null then
    raise exception '"%" is not captured: gapless capture lists the captured tables', mend_capture.source
      using errcode = 'GL404';
  end if;
  placed := gapless.place_capture(number, root);
  perform gapless.renew_capture(number, root);
  return placed;
end
$$;
