-- Make the triggers of a captured table anew where they are missing or disabled, or a partition came after them,
-- and note what its columns are called now. Returns how many triggers were made or enabled.
--   select gapless.mend_capture('public.orders');
-- What was written in between is not in the topic. Runs with the rights of whoever calls: the table's owner.
create or replace function gapless.mend_capture(source text)
returns int
language plpgsql
as $$
declare
  root oid := gapless.table_of(mend_capture.source);
  number int := gapless.capture_of(root);
  placed int;
begin
  if number is null then
    raise exception '"%" is not captured: gapless capture lists what is', mend_capture.source
      using errcode = 'GL404';
  end if;
  placed := gapless.place_capture(number, root);
  perform gapless.renew_capture(number, root);
  return placed;
end
$$;
