-- Groups that expire when they are not used for long: the time after which they expire, their idle time, the remaining
-- time, and the number of units that would go with each.
create or replace view gapless.expiries as
select
  e.group_id, e.expires_after, e.idle,
  greatest(e.expires_after - e.idle, '0') as time_left,
  e.idle >= e.expires_after * 0.9 as is_near,
  (select count(*) from gapless.dead_letter d where d.group_id = e.group_id) as set_aside,
  e.set_by,
  e.set_ts
from gapless.group_expiry e;

comment on view gapless.expiries is 'Groups that are dropped when they are not used, and the time that they have left.';
