-- End pauses of a group, one topic of it or one partition; its members continue within a moment. Without a holder, all
-- pauses in that range end, whatever their holders. Returns the number of these pauses.
-- Raises GL409 for one partition of a topic that is paused as a whole.
create or replace function gapless.resume(
  group_id text, topic text default null, partition_id int default null, holder uuid default null
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
    raise exception 'group "%" is paused as a whole: resume the group, then pause its parts',
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
