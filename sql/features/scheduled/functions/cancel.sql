-- Cancel an event that waits for its time. True: it will not be delivered, and its dedupe_key is free again. False: it
-- is in the log already, was cancelled, or the id is unknown.
--   select gapless.cancel(17);
-- The cancellation counts when the caller's transaction commits. While another session promotes or cancels the event,
-- it waits for that session (S2). A producer may cancel events that it scheduled itself (by the role that logged in),
-- an operator may cancel any event; all other calls are refused (42501). The audit has what a role cancels for another
-- role, or for the caller of a gateway.
-- locks: the row of scheduled
create or replace function gapless.cancel(scheduled_id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  gone gapless.scheduled;
begin
  select s.* into gone from gapless.scheduled s where s.scheduled_id = cancel.scheduled_id for update;
  if not found then
    return false;
  end if;
  if gone.scheduled_by <> session_user and not exists (
    select from pg_roles r
    where (r.rolname = 'gapless_operator'
        or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'gapless'))
      and pg_has_role(session_user, r.oid, 'member')
  ) then
    raise exception 'event % was scheduled by %: to cancel it, log in as that role or as an operator',
      cancel.scheduled_id, gone.scheduled_by
      using errcode = 'insufficient_privilege';
  end if;
  delete from gapless.scheduled s
  where s.deliver_at = gone.deliver_at and s.scheduled_id = gone.scheduled_id;
  if gone.dedupe_key is not null then
    delete from gapless.dedupe d
    where d.topic_id = gone.topic_id and d.dedupe_key = gone.dedupe_key and d.message_id is null
      and d.transaction_id
        = coalesce(gone.transaction_id, gapless.transaction_uuid(gone.xid, gone.timeline));
  end if;
  if gone.scheduled_by <> session_user or nullif(current_setting('gapless.asked_by', true), '') is not null then
    insert into gapless.audit (action, group_id, topic_id, detail)
    values (
      'cancel', '', gone.topic_id,
      jsonb_build_object('event', gone.scheduled_id, 'deliver_at', gone.deliver_at, 'key', gone.key)
    );
  end if;
  return true;
end
$$;
