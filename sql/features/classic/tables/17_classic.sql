-- Classic names for programs that still use them: groups whose offsets are shown under the classic name, topics that
-- notify the classic channel.

create table gapless.classic_group (
  group_id text not null,
  topic_id int not null,
  view_name text not null,             -- schema and name, quoted where SQL needs it
  asked_by name not null default session_user,
  created_ts timestamptz not null default clock_timestamp(),
  primary key (group_id, topic_id),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.classic_group is
  'Groups whose offsets a view shows as the classic consumer_offsets did: gapless.show_classic(), gapless.classics.';

create table gapless.classic_channel (
  topic_id int primary key references gapless.topic on delete cascade,
  channel text not null,
  asked_by name not null default session_user,
  created_ts timestamptz not null default clock_timestamp()
);

comment on table gapless.classic_channel is
  'Topics whose new events are announced on a channel, as the classic trigger did: gapless.notify_classic().';

create table gapless.guard_classic ();

comment on table gapless.guard_classic is 'Locked while it is changed what is shown or announced under classic names.';
