-- Classic names that are shown or announced, with the problem of each: null when there is none. kind: 'offsets' of a
-- group, shown in a view; 'notify' of a topic, on a channel. name: of the view or the channel.
create or replace view gapless.classics as
select 'offsets' as kind, k.group_id, t.name as topic, k.view_name as name, k.asked_by::text as asked_by, k.created_ts,
  case when gapless.classic_view(k.view_name) is null then format('view %s is gone, or is another one', k.view_name) end
    as problem,
  case when gapless.classic_view(k.view_name) is null
    then format('gapless classic show %s/%s --as %s', k.group_id, t.name, k.view_name)
  end as remedy
from gapless.classic_group k join gapless.topic t using (topic_id)
union all
select 'notify', null, t.name, c.channel, c.asked_by::text, c.created_ts,
  case when x.enabled is null then 'its trigger is gone' when x.enabled <> 'O' then 'its trigger is disabled' end,
  case when x.enabled is distinct from 'O' then format('gapless classic notify %s --channel %s', t.name, c.channel) end
from gapless.classic_channel c join gapless.topic t using (topic_id)
cross join gapless.classic_trigger() x (enabled);

comment on view gapless.classics is 'What is kept for programs that watch the classic tables.';
