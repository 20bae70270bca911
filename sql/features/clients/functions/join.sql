-- Join an ordered group as a client, in any language: a member without a session, which lives until its deadline.
--   select * from gapless.join('billing', 'orders', ttl => '30 s');
-- The token is returned only here; poll(), commit() and the other functions of clients take it. Each of these renews
-- the deadline by ttl (3 s to 1 h). A client that lets it pass is no member any more, and its partitions go to others.
-- name: for people. Partitions are shared evenly with the other members, also with supervisors.
-- Raises GL404 for an unknown group or topic, GL400 for a value that is out of range, GL409 for a group that clients
-- cannot serve: a queue group, a group with a filter or subscriptions, one of a topic with direct messages, a
-- webhook's, a replay; or when the group has 1000 clients.
create or replace function gapless.join(group_id text, topic text, ttl interval default '30 s', name text default null)
returns table (member_id uuid, token text, expires_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id("join".topic);
  secret text := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
  reason text;
begin
  if ("join".ttl between interval '3 s' and interval '1 h') is not true then
    raise exception 'a ttl is from 3 s to 1 h, not %', coalesce("join".ttl::text, 'null') using errcode = 'GL400';
  end if;
  "join".ttl := make_interval(secs => extract(epoch from "join".ttl));    -- a month less 30 days is no ttl
  if length("join".name) > 100 or "join".name = '' or "join".name ~ '[[:cntrl:]]' then
    raise exception 'a name of a member has 1 to 100 characters, none of them a control character'
      using errcode = 'GL400';
  end if;
  reason := gapless.no_client_reason("join".group_id, wanted);
  if reason is not null then
    raise exception '%', reason using errcode = 'GL409';
  end if;
  -- Clients whose deadline has passed are evicted below, and no reason to refuse.
  if (
    select count(*) from gapless.member_group mg
    join gapless.member m using (member_id)
    where mg.group_id = "join".group_id and mg.topic_id = wanted and m.kind = 'client'
      and m.expires_at >= clock_timestamp()
  ) >= 1000 then
    raise exception 'group "%" has 1000 clients, of which each has to leave, or to pass its deadline', "join".group_id
      using errcode = 'GL409';
  end if;

  perform gapless.bound_idle(interval '5 s');
  member_id := gen_random_uuid();
  expires_at := clock_timestamp() + "join".ttl;
  insert into gapless.member as m
    (member_id, kind, token_digest, name, ttl, expires_at, backend_pid, sessions)
  values (
    member_id, 'client', sha256(convert_to(secret, 'UTF8')),
    coalesce("join".name, 'client ' || left(member_id::text, 8)), "join".ttl, expires_at, 0, 0
  );
  insert into gapless.member_group (member_id, group_id, topic_id)
  values (member_id, "join".group_id, wanted);
  if gapless.watch(member_id) then
    perform gapless.evict(member_id);
  end if;
  perform gapless.sync("join".group_id, wanted);
  token := 'gm_' || replace(member_id::text, '-', '') || '_' || secret;
  return next;
end
$$;
