-- Drop the groups of removed webhooks, and delete these webhooks, as far as no worker serves them any more, and delete
-- attempts that are too old, some at a time. Returns the number of the remaining removed webhooks. A consumer may call
-- it: it drops only webhooks that an operator has removed.
-- locks: attempts, and the rows of removed webhooks and of their state that no other session has locked, then as
--   drop_group(). MUST wait for no row of webhook_state: a worker that notes and records locks it first, and shares its
--   webhook then, because PostgreSQL checks a foreign key again where a transaction changes a row twice
create or replace function gapless.purge_webhooks() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  gone record;
begin
  delete from gapless.webhook_attempt a
  using (
    select o.name, o.attempt_no from gapless.webhook_attempt o
    where o.at_ts < gapless.attempts_since()
    order by o.at_ts
    limit 10000
    for update skip locked
  ) o
  where a.name = o.name and a.attempt_no = o.attempt_no;
  for gone in
    select w.name, w.topic_id, w.shared, gapless.group_of_webhook(w) as group_id
    from gapless.webhook w
    join gapless.webhook_state s using (name)
    where w.removed_ts is not null
    order by w.name
    for update of w, s skip locked
  loop
    begin
      if exists (select from gapless.consumer_group g where g.group_id = gone.group_id)
        and not (gone.shared and exists (    -- the last one of a topic takes the group along
          select from gapless.webhook w where w.shared and w.topic_id = gone.topic_id and w.removed_ts is null
        ))
      then
        perform gapless.drop_group(gone.group_id);
      end if;
      delete from gapless.webhook w where w.name = gone.name;
    exception
      when sqlstate 'GL423' then
        null;    -- a worker still serves it: later
    end;
  end loop;
  return (select count(*) from gapless.webhook w where w.removed_ts is not null);
end
$$;
