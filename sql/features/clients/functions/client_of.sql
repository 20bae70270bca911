-- Return the client of a token, with its group. Its row is locked, so that no other session evicts it, or works with
-- the token, before the transaction ends. Raises GL006 when it is no member (any more), or its deadline has passed.
-- locks: the member's row until the transaction ends
create or replace function gapless.client_of(
  _token text, out member_id uuid, out name text, out group_id text, out topic_id int, out expires_at timestamptz,
  out ttl interval
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  here gapless.member;
  asked uuid;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'a client of a group calls poll(), commit() and the others in READ COMMITTED, not %: they decide '
      'by the present state', upper(current_setting('transaction_isolation'))
      using errcode = 'invalid_transaction_state';
  end if;
  if _token ~ '^gm_[0-9a-f]{32}_[0-9a-f]{64}$' then
    asked := substring(_token from 4 for 32)::uuid;
    select m.* into here from gapless.member m
    where m.member_id between asked and asked and m.kind = 'client'
      and m.token_digest = sha256(convert_to(substring(_token from 37), 'UTF8'))
    order by m.member_id desc limit 1    -- the newest version, as member_row()
    for update;
  end if;
  if here.member_id is null then
    raise exception 'no member has this token (any more): its deadline has passed, or it has left; join again'
      using errcode = 'GL006';
  end if;
  if gapless.is_overdue(here.expires_at, here.ttl) then
    raise exception 'member "%" came too late: its deadline was % s ago; join again',
      here.name, round(extract(epoch from clock_timestamp() - here.expires_at)::numeric, 1)
      using errcode = 'GL006';
  end if;
  perform gapless.bound_idle(here.ttl);
  member_id := here.member_id;
  name := here.name;
  expires_at := here.expires_at;
  ttl := here.ttl;
  select mg.group_id, mg.topic_id into group_id, topic_id
  from gapless.member_group mg
  where mg.member_id = here.member_id;
  if group_id is null then
    raise exception 'the group of member "%" was dropped', here.name using errcode = 'GL006';
  end if;
end
$$;
