-- Return the worst problem that keeps rows of an attached table from being published, or from being in the log as they
-- are; and the command that helps. No row when there is none.
-- Changes are counted by the server's statistics, which a crash may have set back: later counts are new changes then.
create or replace function gapless.attachment_problem(_made gapless.attached, _root oid)
returns table (problem text, mended_by text)
language plpgsql stable as $$
declare
  changes bigint;
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
  elsif exists (select from gapless.attached_columns(_made, _root) c where c.name is not null and c.now is null) then
    select format('column "%s" (%s) is gone: nothing is copied', c.name, c.what),
      case c.what when 'id' then 'again' else 'map' end
    into problem, mended_by
    from gapless.attached_columns(_made, _root) c
    where c.name is not null and c.now is null
    order by c.what = 'id' desc, c.what
    limit 1;
  elsif (_made).live_ts is null then
    problem := 'it is not copied to its end yet';
    mended_by := 'mend';
  elsif enabled is null then
    problem := 'its trigger is gone';
  elsif enabled not in ('O', 'A') then
    problem := 'its trigger is disabled';
  elsif exists (select from gapless.attached_miss m where m.attachment_id = (_made).attachment_id) then
    select format(
      case sum(m.rows) when 1 then '%s row was not copied: %s' else '%s rows were not copied: %s' end,
      sum(m.rows), max(m.error)
    ) into problem
    from gapless.attached_miss m where m.attachment_id = (_made).attachment_id;
  elsif exists (select from gapless.attached_columns(_made, _root) c where c.now <> c.name) then
    select format('column "%s" (%s) is called "%s" now', c.name, c.what, c.now) into problem
    from gapless.attached_columns(_made, _root) c where c.now <> c.name order by c.what limit 1;
  else
    changes := pg_stat_get_tuples_updated(_root) + pg_stat_get_tuples_deleted(_root);
    changes := changes - case when changes >= (_made).changes_before then (_made).changes_before else 0 end;
    if (_made).changes_before is null or changes = 0 then
      return;
    end if;
    problem := format(
      case changes when 1 then '%s row was' else '%s rows were' end
        || ' updated or deleted, and the log has a row as it was inserted', changes
    );
    mended_by := 'despite';
  end if;
  return next;
end
$$;
