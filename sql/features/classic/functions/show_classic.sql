-- Show a group's offsets as the classic consumer_offsets did, from now on: in a view with its three keys and
-- next_offset.
--   select gapless.show_classic('billing', 'orders');
-- topic: by default the group's only one. view: its name as SQL spells it; all groups are shown in the same view.
-- False: they were shown before. The view reads the offsets themselves, so it is never behind, and costs no group
-- anything.
-- Raises GL400 and GL404; GL409 where something else has that name: it replaces no foreign object. Runs with the rights
-- of the caller, who needs CREATE on the schema of the view.
create or replace function gapless.show_classic(
  group_id text, topic text default null, view text default 'public.consumer_offsets'
) returns boolean
language plpgsql as $$
declare
  wanted int := gapless.classic_topic(show_classic.group_id, show_classic.topic);
  named text := gapless.classic_name(show_classic.view);
  other text;
begin
  perform gapless.lock_classic();
  select k.view_name into other from gapless.classic_group k where k.view_name <> named limit 1;
  if other is not null then
    raise exception 'groups are shown in % already: one name for all; gapless classic hide ends that', other
      using errcode = 'GL409';
  end if;
  if gapless.classic_view(named) is null then
    if to_regclass(named) is not null then
      raise exception '% is there, and gapless did not make it: rename it once no old consumer uses it, or show the '
        'groups under another name (--as)', named
        using errcode = 'GL409';
    end if;
    execute format('create view %s as select * from gapless.classic_offsets', named);
    execute format(
      'comment on view %s is %L', named, 'Offsets of groups of gapless, under the classic name: gapless classic hide'
    );
  end if;
  return gapless.note_classic_group(show_classic.group_id, wanted, named);
end
$$;
