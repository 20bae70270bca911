-- Give out events of a queue group until a deadline, for calls outside of a transaction, and of what was given out
-- before and nobody answered for. Returns the events with a receipt, in offset order; no row: there is nothing.
-- The events of one range, and those of one unit that was set aside, share a receipt.
--   partition_id null: of any partition, the laggiest first
--   what 'any'; 'aside': only what was given out before, came back or is due again
--   crashes_max: what was given out so often, and nobody answered for, becomes dead here; null: the caller decides by
--     crashes
-- attempts: calls that ended badly; crashes: times it was given out without an answer, this one included.
-- What lapsed or killed its worker comes alone, so that its neighbours do not suffer with it.
-- A partition that stands before a hole gives nothing; the others are served. When these have nothing either, a worker
-- (crashes_max null) is told by GL410, and anybody else by a notice.
-- Of a range that lapsed, MUST the row be locked, not the block: whoever answers late waits, and then has lost (Q2).
-- locks: as take_next(); the rows of what it gives out, until the transaction ends, by try
create or replace function gapless.reserve(
  _group_id text, _topic_id int, _partition_id int, _max_events int, _visibility interval, _worker text,
  _what text default 'any', _crashes_max int default null
)
returns table (
  receipt text, partition_id int, c_offset bigint, attempts int, crashes int, is_letter boolean, was_dead boolean,
  timeline int, deadline timestamptz,
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  seconds double precision := gapless.require_interval('visibility', _visibility, false);
  here record;
  part record;
  aside_first boolean := _what = 'aside' or random() < 0.0625;
  round text;
  is_given boolean := false;
  hole text;
begin
  perform gapless.require_read_committed('reserve');
  deadline := clock_timestamp() + make_interval(secs => seconds);
  -- What was given out before is looked for when nothing else is left, and now and then.
  foreach round in array case
    when _what = 'aside' then array['aside']
    when aside_first then array['aside', 'open']
    else array['open', 'aside']
  end loop
    if round = 'aside' then
      perform gapless.heal_letters();
    end if;
    for part in
      select p.partition_id, p.lease_no, p.block, p.open from gapless.queue_places(_group_id, _topic_id) p
      where (_partition_id is null or p.partition_id = _partition_id)
        and not gapless.is_paused(_group_id, _topic_id, p.partition_id)
    loop
      -- MUST be caught here: what was written on the way to a hole is undone, and its block is free again.
      begin
        if round = 'open' then
          return query
          select r.* from gapless.reserve_open(
            _group_id, _topic_id, part.partition_id, part.lease_no, part.block, _max_events, _worker, deadline
          ) r;
        else
          return query
          select r.* from gapless.reserve_aside(
            _group_id, _topic_id, part.partition_id, part.lease_no, _max_events, _worker, deadline, _crashes_max
          ) r;
        end if;
        is_given := found;
      exception when sqlstate 'GL410' then
        hole := coalesce(hole, sqlerrm);
      end;
      if is_given then
        return;
      end if;
    end loop;
  end loop;
  if hole is not null and _crashes_max is null then
    raise exception '%', hole using errcode = 'GL410';
  elsif hole is not null then
    raise notice '%', hole;
  end if;
end
$$;
