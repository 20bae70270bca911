-- Offsets of the groups that are shown, in the form of the classic consumer_offsets. It reads the offsets themselves,
-- in the snapshot of the query: never behind, and nothing is copied.
-- MUST stay a join: a view of one table could be written to, and a classic claim would move a group past unhandled
-- events.
create or replace view gapless.classic_offsets as
select c.group_id::varchar(255) as group_id, c.topic_id, c.partition_id, c.next_offset
from gapless.consumer_offsets c
join gapless.classic_group k on k.group_id = c.group_id and k.topic_id = c.topic_id;

comment on view gapless.classic_offsets is 'Offsets of groups, as the classic consumer_offsets showed them.';
