-- Deliver events of a queue group until a deadline, for calls outside of a transaction, and for events that were
-- delivered before and not answered for. Returns the events with a receipt, in offset order; no row: there is none. The
-- events of one range, and those of one unit that was set aside, share a receipt.
--   partition_id null: of any partition, the partition with the largest backlog first
--   what 'any'; 'aside': only events that were delivered before, came back or are due again
--   crashes_max: events that were delivered so often without an answer become dead here; null: the caller decides by
--     crashes
-- attempts: calls that failed; crashes: deliveries without an answer, this one included.
-- Events that lapsed or killed their worker come alone, so that their neighbours do not suffer with them. A partition
-- before a hole returns no event; the others are served. When these have none either, a worker (crashes_max null) gets
-- GL410, and all other callers a notice.
-- For a range that lapsed, the row MUST be locked, not the block: a late answer waits, and is then refused (Q2).
-- locks: as take_next(); the rows of the events that it gives out, until the transaction ends, by try
create or replace function gapless.reserve(
  _group_id text, _topic_id int, _partition_id int, _max_events int, _visibility interval, _worker text,
  _what text default 'any', _crashes_max int default null
) returns table (
  receipt text, partition_id int, c_offset bigint, attempts int, crashes int, is_letter boolean, was_dead boolean,
  timeline int, deadline timestamptz,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  seconds double precision := gapless.require_interval('visibility', _visibility, false);
  aside_first boolean := _what = 'aside' or random() < 0.0625;
  round text;
  partitions int[];
  leases int[];
  blocks int[];
  opens bigint[];
  letters boolean[];
  gaps boolean[];
  lapsed boolean[];
  finished boolean[];
  is_given boolean := false;
  hole text;
begin
  perform gapless.require_read_committed('reserve');
  deadline := clock_timestamp() + make_interval(secs => seconds);
  select array_agg(w.partition_id), array_agg(w.lease_no), array_agg(w.block), array_agg(w.open), array_agg(w.has_due)
  into partitions, leases, blocks, opens, letters
  from gapless.queue_work(_group_id, _topic_id) w
  where _partition_id is null or w.partition_id = _partition_id;
  if leases is null then
    perform gapless.heal_letters(), gapless.require_queue(_group_id, _topic_id);
    return;
  end if;
  -- Events that were delivered before are looked for when none is left, and now and then.
  <<rounds>>
  foreach round in array case
    when _what = 'aside' then array['aside']
    when aside_first then array['aside', 'open', 'gaps']
    else array['open', 'gaps', 'aside']
  end loop
    if round = 'aside' then
      perform gapless.heal_letters();
    end if;
    if round <> 'open' and gaps is null then
      select array_agg(a.has_gap), array_agg(a.has_due), array_agg(a.is_finished) into gaps, lapsed, finished
      from gapless.queue_above(leases) a;
    end if;
    for n in 1 .. cardinality(leases) loop
      continue when not case round
        when 'open' then opens[n] > 0
        when 'gaps' then opens[n] = 0 and gaps[n]
        else letters[n] or lapsed[n]
      end;
      -- MUST be caught here: the writes on the way to a hole are undone, and its block is free again.
      begin
        if round = 'aside' then
          return query
          select r.* from gapless.reserve_aside(
            _group_id, _topic_id, partitions[n], leases[n], _max_events, _worker, deadline, _crashes_max
          ) r;
        else
          return query
          select r.* from gapless.reserve_open(
            _group_id, _topic_id, partitions[n], leases[n], blocks[n], _max_events, _worker, deadline
          ) r;
        end if;
        is_given := found;
      exception when sqlstate 'GL410' then
        hole := coalesce(hole, sqlerrm);
      end;
      exit rounds when is_given;
      finished[n] := finished[n] or round = 'aside';    -- a unit that is given up is finished
    end loop;
  end loop;
  -- There may be no other session to do it.
  if not is_given or random() < 0.0156 then
    if finished is null then
      select array_agg(a.is_finished) into finished from gapless.queue_above(leases) a;
    end if;
    perform gapless.sweep(f.lease_no) from unnest(leases, finished) as f (lease_no, is_finished) where f.is_finished;
  end if;
  if is_given or _crashes_max is null and hole is null then
    return;
  elsif _crashes_max is null then
    raise exception '%', hole using errcode = 'GL410';
  end if;
  if hole is not null then
    raise notice '%', hole;
  end if;
  if opens[1] > 0 then
    perform gapless.end_foreign_locks();
  end if;
end
$$;
