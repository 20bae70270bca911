-- A new row of offsets (another partition, or a restored one) begins with its group's filter, as the
-- others have it. locks: the group's row, so that no filter is set at this moment.
create or replace function gapless.inherit_filter() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from gapless.consumer_group g
  where g.group_id = new.group_id and g.topic_id = new.topic_id
  for share;    -- setting a filter locks it for no key update, with which a key share does not conflict
  new.filter_no := coalesce(
    (
      select f.filter_no from gapless.group_filter f
      where f.group_id = new.group_id and f.topic_id = new.topic_id
    ), gapless.unfiltered(new.topic_id), 0);
  return new;
end
$$;

drop trigger if exists consumer_offsets_filter on gapless.consumer_offsets;
create trigger consumer_offsets_filter before insert on gapless.consumer_offsets
for each row execute function gapless.inherit_filter();
