-- Tell, in one look without a write, whether there is a reason to call gapless.evict() or gapless.sync() for this
-- member's groups. True when the next member in the ring has lost its session; when a member has been silent for half
-- its ttl, or a client's deadline has passed, or a deadline is further ahead than its ttl; when the newest plan of one
-- of its groups does not fit the present members; when this member has room (it gave back partitions of another group)
-- and partitions are unserved; or when leases are to be retired.
create or replace function gapless.watch(_member_id uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  return (
  with every as materialized (select * from gapless.all_members)
  select
    exists (
      select from (
        select m.member_no from every m, every me
        where me.member_id = _member_id and m.member_id <> me.member_id and m.kind = 'supervisor'
        order by m.member_no <= me.member_no, m.member_no
        limit 1
      ) successor
      where pg_try_advisory_xact_lock_shared(7427002, successor.member_no)
    )
    or exists (
      select from every m
      where m.member_id <> _member_id
        and (
          m.expires_at - case m.kind when 'client' then interval '0' else m.ttl / 2 end < clock_timestamp()
          or m.expires_at > clock_timestamp() + m.ttl
        )
    )
    or exists (
      select from gapless.member_group mine
      join gapless.consumer_group g using (group_id, topic_id)
      where mine.member_id = _member_id
        and g.planned_for <> gapless.live_members(g.group_id, g.topic_id)
    )
    or exists (
      select from every me
      where me.member_id = _member_id and me.state = 'active'
        and coalesce(me.capacity, 2147483647) > (
          select count(*) from gapless.lease l where l.target = me.member_id
        )
        and exists (
          select from gapless.member_group mine
          join gapless.consumer_group g using (group_id, topic_id)
          join gapless.lease l using (group_id, topic_id)
          where mine.member_id = me.member_id and l.target is null and g.mode = 'ordered'
        )
    )
    or exists (
      select from gapless.member_group mine
      where mine.member_id = _member_id
        and gapless.has_finished(mine.group_id, mine.topic_id)
    )
  );
end
$$;
