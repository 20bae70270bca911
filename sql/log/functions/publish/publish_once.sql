-- Publish one event in the caller's transaction, unless its topic has one with this dedupe_key that is not older than
-- the topic's dedupe_window. A duplicate stores nothing, whatever its payload; its transaction_id and message_id are
-- those of the event that came first.
--   select * from gapless.publish_once('orders', '{"total": 5}', 'order-17', key => 'AA');
--
-- If another transaction is publishing with the same key, the call waits for it to commit (then this is a duplicate) or
-- to roll back (then this is the first). Two transactions that use several keys in opposite orders deadlock, as with
-- any unique key: the server ends one of them. In a REPEATABLE READ or SERIALIZABLE transaction, a conflict with a
-- transaction that began after its snapshot is a serialization failure (40001): repeat it.
--
-- deliver_at, deliver_in: as in publish_later(); the key counts from now. Then scheduled_id is for cancel(), which
-- makes the key free again, and message_id is null, also for duplicates.
-- digest: of the contents for which the key stands, if the caller wants a key with other contents refused (GL422)
-- instead of taken for a duplicate. A key that came with a digest and now comes without one, or the other way round, is
-- refused, too: a request's key and an event's key are two things, and neither is to be lost for the other.
-- A dedupe_key has 1 to 500 characters. Producers may call this function; they cannot read keys, nor create one without
-- publishing the event.
-- locks: the key, until the transaction ends; dedupe_state (SHARE) in those two isolation levels
create or replace function gapless.publish_once(
  topic text, payload json, dedupe_key text, key text default null, event_type text default null,
  headers jsonb default null, host_id text default null, user_id text default null,
  inout transaction_id uuid default null, deliver_at timestamptz default null,
  deliver_in interval default null, digest bytea default null, out message_id bigint,
  out duplicate boolean, out scheduled_id bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  -- MUST come before the look at dedupe_state: turn_dedupe_slots() waits for xids that are in progress.
  own xid8 := pg_current_xact_id();
  given uuid := coalesce(
    publish_once.transaction_id,
    gapless.cause_uuid(nullif(current_setting('gapless.cause', true), ''))
  );
  due timestamptz := gapless.deliver_time(publish_once.deliver_at, publish_once.deliver_in);
  now_ts timestamptz;
  here record;
  state gapless.dedupe_state;
  slots int[];         -- the key goes there
  entered int[] := '{}';
  each int;
  first gapless.dedupe;
begin
  if jsonb_typeof(publish_once.headers) <> 'object' then
    perform gapless.refuse_headers(publish_once.headers);
  end if;
  if coalesce(length(publish_once.dedupe_key), 0) not between 1 and 500 then
    raise exception 'dedupe_key must have 1 to 500 characters, not %',
      coalesce(length(publish_once.dedupe_key), 0)
      using errcode = 'invalid_parameter_value';
  end if;
  select t.topic_id, extract(epoch from t.dedupe_window)::float8 as window_s into strict here
  from gapless.topic t where t.topic_id = gapless.topic_id(publish_once.topic);
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    -- MUST be the present state: this fails (40001) if slots were turned after the caller's snapshot, because that may
    -- not see keys of a slot that is only looked at. KEY SHARE would not fail. No slot is turned until the transaction
    -- ends.
    perform from gapless.dedupe_state s for share;
  end if;
  select s.* into strict state from gapless.dedupe_state s;
  slots := array_remove(array[state.closing, state.slot], null);

  foreach each in array slots || state.closed loop
    select d.* into first
    from gapless.dedupe_find(each, here.topic_id, publish_once.dedupe_key) d
    where gapless.dedupe_lasts(d.published_ts, here.window_s);
    duplicate := found;
    exit when duplicate;
  end loop;

  if not duplicate then
    now_ts := clock_timestamp();
    foreach each in array slots loop
      insert into gapless.dedupe as d
        (slot, topic_id, dedupe_key, transaction_id, published_ts, digest)
      values (
        each, here.topic_id, publish_once.dedupe_key,
        coalesce(given, gapless.transaction_uuid(own, gapless.timeline())), now_ts, publish_once.digest
      )
      on conflict (topic_id, dedupe_key, slot) do update
      set transaction_id = excluded.transaction_id, message_id = null,
        published_ts = excluded.published_ts, digest = excluded.digest
      where not gapless.dedupe_lasts(d.published_ts, here.window_s)
      returning d.* into first;
      duplicate := not found;
      exit when duplicate;
      entered := entered || each;
    end loop;
    if duplicate then    -- another transaction was faster, and has committed
      select d.* into strict first
      from gapless.dedupe_find(each, here.topic_id, publish_once.dedupe_key) d;
    else
      -- MUST come after the wait: with an id from before it, the event could come before those of transactions that
      -- committed in between (I4).
      if due is null then
        insert into gapless.outbox_message_t as o
          (topic_id, key, event_type, payload, headers, host_id, user_id, transaction_id)
        values (
          here.topic_id, publish_once.key, publish_once.event_type, publish_once.payload,
          publish_once.headers, gapless.canonical_host(publish_once.host_id), publish_once.user_id, given
        )
        returning o.id into first.message_id;
      else
        scheduled_id := gapless.schedule_event(
          due, here.topic_id, publish_once.payload, publish_once.key, publish_once.event_type,
          publish_once.headers, publish_once.host_id, publish_once.user_id, given, publish_once.dedupe_key,
          case when publish_once.deliver_in is not null then now() end
        );
      end if;
    end if;
    -- Both slots get the same values, even if only the second one knew the key. Not an UPDATE: its plan would lock all
    -- slots (dedupe_find).
    foreach each in array entered loop
      insert into gapless.dedupe as d
        (slot, topic_id, dedupe_key, transaction_id, message_id, published_ts, digest)
      values (
        each, first.topic_id, first.dedupe_key, first.transaction_id, first.message_id,
        first.published_ts, first.digest
      )
      on conflict (topic_id, dedupe_key, slot) do update
      set transaction_id = excluded.transaction_id, message_id = excluded.message_id,
        published_ts = excluded.published_ts, digest = excluded.digest;
    end loop;
  end if;
  if duplicate and first.slot = any (slots) and first.published_ts > clock_timestamp() + interval '1 s' then
    -- A clock that was ahead published it: its window counts from now on.
    insert into gapless.dedupe as d select (first).*
    on conflict (topic_id, dedupe_key, slot) do update set published_ts = clock_timestamp();
  end if;
  if duplicate and publish_once.digest is distinct from first.digest then
    raise exception 'key "%" came with other contents before: give each % a key of its own',
      publish_once.dedupe_key,
      case when publish_once.digest is null or first.digest is null then 'request and each event' else 'request' end
      using errcode = 'GL422';
  end if;
  transaction_id := first.transaction_id;
  message_id := first.message_id;
end
$$;
