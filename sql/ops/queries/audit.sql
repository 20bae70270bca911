-- name: list
-- Changes, the newest first; rows before a number continue a page.
-- returns: gapless.ops.audit:AuditEntry
-- index: audit_pkey, audit_at or audit_group
select a.audit_id, a.at_ts as at, a.who, a.action, nullif(a.group_id, '') as "group", t.name as topic,
  a.partition_id as "partition", a.detail
from gapless.audit a
left join gapless.topic t using (topic_id)
where (%(before)s::bigint is null or a.audit_id < %(before)s)
  and (%(who)s::text is null or strpos(lower(a.who), lower(%(who)s)) > 0)
  and (%(action)s::text is null or a.action = %(action)s)
  and (%(group)s::text is null or a.group_id = %(group)s)
  and (%(topic)s::text is null or t.name = %(topic)s)
  and (%(since)s::timestamptz is null or a.at_ts >= %(since)s)
  and (%(age)s::interval is null or a.at_ts >= now() - %(age)s::interval)
  and (%(until)s::timestamptz is null or a.at_ts <= %(until)s)
order by a.audit_id desc
limit %(limit)s
