-- What filters did: how many events each kept and passed, and about which it could not be asked. Written by
-- claim_kept() in the transaction that claims, so it counts what is committed; groups without a filter
-- have no row here.

create table gapless.filter_tally (
  group_id text not null,
  topic_id int not null,
  partition_id int not null,
  filter_no int not null,
  kept bigint not null,
  passed bigint not null,
  unasked bigint not null,
  unasked_offset bigint,
  unasked_why text,
  unasked_ts timestamptz,
  primary key (group_id, topic_id, partition_id),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
) with (fillfactor = 50);

comment on table gapless.filter_tally is
  'What the filter of a group kept and passed of a partition, and the last event about which it could not be asked.';
