-- Set the time for which a topic remembers keys, in seconds. The new window counts from now on, also for present keys;
-- dropped keys do not come back.
create or replace function gapless.set_dedupe_window(topic text, window_s double precision) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if (set_dedupe_window.window_s > 0) is not true then
    raise exception 'topic "%": the dedupe window must be more than nothing', topic
      using errcode = 'GL400';
  end if;
  update gapless.topic t
  -- Seconds alone: days and months have no fixed length.
  set dedupe_window = make_interval(secs => set_dedupe_window.window_s)
  where t.topic_id = gapless.topic_id(set_dedupe_window.topic);
end
$$;
