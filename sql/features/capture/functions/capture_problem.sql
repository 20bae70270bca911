-- Return the worst problem that keeps changes of a captured table from being published, or in order; and the command
-- that helps. No row when there is none.
create or replace function gapless.capture_problem(_asked gapless.captured, _root oid)
returns table (problem text, mended_by text)
language plpgsql stable as $$
declare
  unfit text;
begin
  mended_by := 'mend';
  if not exists (select from pg_class r where r.oid = _root) then
    problem := 'the table is gone';
    mended_by := 'remove';
  elsif not exists (select from gapless.topic t where t.topic_id = _asked.topic_id) then
    problem := format('topic id %s is gone: its events wait in gapless topics unrouted', _asked.topic_id);
    mended_by := 'again';
  elsif exists (select from pg_inherits i where i.inhrelid = _root) then
    problem := 'the table is a part of another one now, and writes through that are not published';
    mended_by := 'again';
  else
    select string_agg(x.said, '; ' order by x.n) into problem
    from gapless.capture_defects(_asked, _root) x;
    if problem is null then
      return;
    end if;
    if not exists (select from gapless.capture_defects(_asked, _root) x where x.mendable) then
      mended_by := 'again';
    end if;
  end if;
  return next;
end
$$;
