-- Valid schemas (set_schema()): publishers are checked against the newest version of a type, groups that check accept
-- the events of any version.
create or replace view gapless.schemas as
select
  t.name as topic, s.event_type, s.version, s.compatibility,
  s.version = max(s.version) over (partition by s.topic_id, s.event_type) as is_newest,
  s.set_by, s.set_ts, s.schema
from gapless.topic_schema s
join gapless.topic t using (topic_id)
where s.removed_ts is null;

comment on view gapless.schemas is 'Versions of the JSON Schemas by which payloads are checked.';
