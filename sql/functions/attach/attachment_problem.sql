-- What keeps rows of an attached table from being published, the worst; and which command helps. No row when nothing
-- does.
create or replace function gapless.attachment_problem(_made gapless.attached, _root oid)
returns table (problem text, mended_by text)
language plpgsql
stable
as $$
declare
  enabled "char" := (
    select t.tgenabled from gapless.attach_triggers() t where t.attachment_id = (_made).attachment_id limit 1
  );
begin
  mended_by := 'mend';
  if _root is null then
    problem := 'the table is gone';
    mended_by := 'remove';
  elsif not exists (select from gapless.topic t where t.topic_id = (_made).topic_id) then
    problem := format('topic id %s is gone: its events wait in gapless topics unrouted', (_made).topic_id);
    mended_by := 'again';
  elsif exists (
    select from jsonb_each_text((_made).map || jsonb_build_object('id', (_made).id_column)) m
    where m.value is not null and not exists (
      select from pg_attribute a
      where a.attrelid = _root and a.attname = m.value and a.attnum > 0 and not a.attisdropped
    )
  ) then
    problem := 'a column that is copied is gone: nothing is copied';
    mended_by := 'again';
  elsif (_made).live_ts is null then
    problem := 'it is not copied to its end yet';
    mended_by := 'mend';
  elsif enabled is null then
    problem := 'its trigger is gone';
  elsif enabled not in ('O', 'A') then
    problem := 'its trigger is disabled';
  else
    select format('%s rows were not copied: %s', sum(m.rows), max(m.error)) into problem
    from gapless.attached_miss m where m.attachment_id = (_made).attachment_id
    having count(*) > 0;
    if problem is null then
      return;
    end if;
  end if;
  return next;
end
$$;
