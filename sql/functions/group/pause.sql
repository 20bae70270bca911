-- Pause a group, one topic of it or one partition: the batch in progress is finished, no other is
-- claimed, and the partition's worker is let go. Its place in the plan stays: after resume() the same
-- member goes on. It holds until somebody says resume(), over restarts of everything.
-- Returns how many pauses are new; 0: all of it was paused already. Waits for no batch.
-- holder: whose pause it is; people leave it out.
create or replace function gapless.pause(
  group_id text, topic text default null, partition_id int default null, reason text default null,
  holder uuid default '00000000-0000-0000-0000-000000000000'
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  new_pauses int;
begin
  with made as (
    insert into gapless.group_pause (group_id, topic_id, partition_id, holder, reason)
    select distinct p.group_id, p.topic_id, coalesce(pause.partition_id, -1), pause.holder,
      pause.reason
    from gapless.group_partitions(pause.group_id, pause.topic, pause.partition_id) p
    on conflict do nothing
    returning group_id, topic_id, partition_id, reason
  ),
  noted as (
    insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
    select 'pause', m.group_id, m.topic_id, nullif(m.partition_id, -1),
      jsonb_build_object('reason', m.reason, 'holder', pause.holder)
    from made m
  )
  select count(*) into new_pauses from made;
  perform gapless.tell_group(pause.group_id, 'pause');
  return new_pauses;
end
$$;

-- Tell the members of a group, in all its topics, to look at their leases again.
create or replace function gapless.tell_group(group_id text, word text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_notify('gapless_g_' || g.group_no, tell_group.word)
  from gapless.consumer_group g
  where g.group_id = tell_group.group_id;
end
$$;

-- End pauses of a group, one topic of it or one partition; its members go on within a moment.
-- Without a holder all pauses in that range end, whoever made them. Returns how many there were.
-- Raises GL409 for one partition of a topic that is paused as a whole.
create or replace function gapless.resume(
  group_id text, topic text default null, partition_id int default null, holder uuid default null
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  ended int;
begin
  perform from gapless.group_partitions(resume.group_id, resume.topic, resume.partition_id);
  if resume.partition_id is not null and resume.holder is null and exists (
    select from gapless.group_pause p
    join gapless.group_partitions(resume.group_id, resume.topic, resume.partition_id) c
      on c.group_id = p.group_id and c.topic_id = p.topic_id
    where p.partition_id = -1
  ) then
    raise exception 'group "%" is paused as a whole: resume the group, then pause what is to rest',
      resume.group_id
      using errcode = 'GL409';
  end if;
  with gone as (
    delete from gapless.group_pause p
    using gapless.group_partitions(resume.group_id, resume.topic, resume.partition_id) c
    where p.group_id = c.group_id and p.topic_id = c.topic_id
      and p.partition_id in (-1, c.partition_id)
      and (resume.holder is null or p.holder = resume.holder)
    returning p.group_id, p.topic_id, p.partition_id, p.holder, p.paused_ts
  ),
  noted as (
    insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
    select 'resume', g.group_id, g.topic_id, nullif(g.partition_id, -1),
      jsonb_build_object('paused_ts', g.paused_ts, 'holder', g.holder)
    from gone g
  )
  select count(*) into ended from gone;
  perform gapless.tell_group(resume.group_id, 'resume');
  return ended;
end
$$;

-- Is this partition paused, by whomever?
create or replace function gapless.is_paused(group_id text, topic_id int, partition_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from gapless.group_pause p
    where p.group_id = is_paused.group_id and p.topic_id = is_paused.topic_id
      and p.partition_id in (-1, is_paused.partition_id)
  )
$$;
