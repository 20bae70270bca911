-- Stop showing a group's offsets under the classic name; the last group's end drops the view, too. False: they were not
-- shown.
--   select gapless.hide_classic('billing', 'orders');
-- Raises GL400, GL404. A view of another role stays, and shows no row.
create or replace function gapless.hide_classic(group_id text, topic text default null) returns boolean
language plpgsql as $$
declare
  wanted int := gapless.classic_topic(hide_classic.group_id, hide_classic.topic);
  named text;
begin
  perform gapless.lock_classic();
  select k.view_name into named from gapless.classic_group k
  where k.group_id = hide_classic.group_id and k.topic_id = wanted;
  if named is null or not gapless.note_classic_group(hide_classic.group_id, wanted, null) then
    return false;
  end if;
  if not exists (select from gapless.classic_group) and gapless.classic_view(named) is not null then
    begin
      execute format('drop view %s', named);
    exception
      when insufficient_privilege or dependent_objects_still_exist then
        raise warning '% shows nothing any more; it stays: it is another role''s, or something depends on it', named;
    end;
  end if;
  return true;
end
$$;
