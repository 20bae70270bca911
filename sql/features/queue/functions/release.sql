-- Release a partition after its last batch, and notify the group, so that the next owner starts at once.
create or replace function gapless.release(_group_id text, _topic_id int, _partition_id int, _token uuid)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update gapless.consumer_offsets c set installed_offset = null
  where c.group_id = _group_id and c.topic_id = _topic_id
    and c.partition_id = _partition_id and c.token = _token;
  update gapless.lease l set owner = null, token = null, worker_pid = null
  where l.group_id = _group_id and l.topic_id = _topic_id
    and l.partition_id = _partition_id and l.token = _token;
  if not found then
    return false;
  end if;
  perform pg_notify('gapless_g_' || g.group_no, 'free')
  from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id;
  return true;
end
$$;

-- Give back the events of a receipt of take(); returns the number of events. c_offset: only the event at that offset.
--   select gapless.release('sender', 'mails', receipt, delay => '30 s');
-- Without a delay, any worker may take them at once. With one, each event is set aside until then, with the reason, and
-- is in the dead letter queue as 'waiting'. Neither counts as a failed attempt. Name the arguments after the receipt:
-- four bare literals would fit a lease as well. Raises GL400 for a delay below zero, or infinite; GL003 when the
-- receipt is no longer valid.
create or replace function gapless.release(
  group_id text, topic text, receipt text, delay interval default '0 s', c_offset bigint default null,
  reason text default null
)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  seconds double precision := gapless.require_interval('delay', delay, true);
begin
  perform gapless.check_receipt(group_id, topic, receipt);
  if seconds = 0 then
    return gapless.release_receipt(receipt, c_offset);
  end if;
  return gapless.fail_receipt(
    receipt, c_offset, 'waiting', coalesce(reason, 'given back'), coalesce(reason, 'given back'),
    _retry_after => make_interval(secs => seconds), _worker => session_user::text, _counted => false
  );
end
$$;
