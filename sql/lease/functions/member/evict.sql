-- Remove members that are gone; returns their number. Any member may call it at any time.
--
-- A member is gone when its presence lock is free, and no worker session holds a lock of a partition that it owns
-- (nothing is left that could work), or the lock has been free, with no heartbeat, for reconnect_grace; or when it is
-- overdue, and was already suspected suspect_grace ago and has not beaten since. Two looks, because the database's
-- clock may jump; the first when half the ttl has passed without a heartbeat, so that the second need not come after
-- the ttl. After a server start every member gets its ttl, at least 5 s, to come back, and earlier suspicions end: no
-- member could beat while the server was down. The start of the WAL writer counts, after a recovery, also after the
-- crash of a single backend. A deadline further ahead than its ttl was set by a clock that was ahead: it counts from
-- now on. A heartbeat ends a suspicion: beat(). Nothing uses member.suspect_beat any more; to drop it would fail calls
-- of the former evict() that wait for the table.
-- A client (client/join.sql) has no session: it is gone at its deadline, whatever its peers do (is_overdue()).
-- locks: the rows of other members, skipping those another session looks at
create or replace function gapless.evict(
  _me uuid, _suspect_grace interval default '3 s', _reconnect_grace interval default '1 s'
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  other record;
  absent boolean;
  silent boolean;
  suspected boolean;
  evicted int := 0;
  up_since timestamptz := gapless.up_since();
begin
  for other in
    select m.* from gapless.member m
    where m.member_id <> _me
      -- Only members about which there is something to decide: for the others the next heartbeat would wait for the
      -- caller's COMMIT, which may be a client's.
      and (
        m.expires_at - case m.kind when 'client' then interval '0' else m.ttl / 2 end < clock_timestamp()
        or m.expires_at > clock_timestamp() + m.ttl
        or m.kind <> 'client' and pg_try_advisory_xact_lock_shared(7427002, m.member_no)
      )
    order by m.member_no
    for update skip locked
  loop
    if other.expires_at > clock_timestamp() + other.ttl then
      other.expires_at := clock_timestamp() + other.ttl;
      update gapless.member m set expires_at = other.expires_at where m.member_id = other.member_id;
    end if;
    if other.kind = 'client' then
      if gapless.is_overdue(other.expires_at, other.ttl) then
        delete from gapless.member m where m.member_id = other.member_id;
        insert into gapless.eviction (member_id, name, reason)
        values (other.member_id, other.name, format('its deadline passed: silent for %s s', round(extract(epoch from
          clock_timestamp() - other.expires_at + other.ttl)::numeric, 1)))
        on conflict do nothing;
        evicted := evicted + 1;
      end if;
      continue;
    end if;
    absent := pg_try_advisory_xact_lock_shared(7427002, other.member_no);
    -- Its presence lock is of a session that began since, or its last heartbeat came since.
    continue when absent and other.expires_at - other.ttl < up_since
      and clock_timestamp() < up_since + greatest(interval '5 s', other.ttl);
    silent := other.expires_at - other.ttl / 2 < clock_timestamp();
    suspected := coalesce(other.suspect_at between up_since and clock_timestamp(), false);
    if absent and (
        not gapless.works(other.member_id)
        or (suspected and other.suspect_at < clock_timestamp() - _reconnect_grace)
      )
      or other.expires_at < clock_timestamp() and suspected
        and other.suspect_at < clock_timestamp() - _suspect_grace
    then
      delete from gapless.member m where m.member_id = other.member_id;
      insert into gapless.eviction (member_id, name, reason)
      values (
        other.member_id, other.name,
        case
          when absent then 'its session ended'
          else format('silent for %s s', round(extract(epoch from
            clock_timestamp() - other.expires_at + other.ttl)::numeric, 1))
        end
      )
      on conflict do nothing;
      evicted := evicted + 1;
    elsif (absent or silent) and not suspected then
      update gapless.member m
      set suspect_at = clock_timestamp()
      where m.member_id = other.member_id;
    end if;
  end loop;
  if evicted > 0 then
    delete from gapless.eviction e where e.evicted_ts < clock_timestamp() - interval '1 day';
  end if;
  return evicted;
end
$$;
