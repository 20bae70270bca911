-- Groups that take some events only: group_filter says which (functions/group/set_filter.sql).
-- consumer_offsets.filter_no says which filter a claim has to know, so a claim without a filter looks up
-- nothing more; 0: none. A number is used once: no claim takes a changed filter for the one it read.
-- Two functions get an argument more, with a default where programs call them: those of before go on.

create table gapless.group_filter (
  group_id text not null,
  topic_id int not null,
  filter_no int generated always as identity unique,
  event_types text[],
  condition jsonpath,
  params jsonb not null default '{}',
  set_by text not null default session_user,
  set_ts timestamptz not null default clock_timestamp(),
  primary key (group_id, topic_id),
  foreign key (group_id, topic_id) references gapless.consumer_group on delete cascade
);

comment on table gapless.group_filter is
  'Which events a group takes: those of one of event_types (null: any) for which condition (null: none) holds.';

alter table gapless.consumer_offsets add column filter_no int not null default 0;

comment on column gapless.consumer_offsets.filter_no is 'The filter that claims have to apply (group_filter); 0: none.';

drop function if exists gapless.advance_offset(text, int, int, bigint, uuid, bigint, bigint, int, tid);
drop function if exists gapless.claim_at(text, int, int, bigint, uuid, int, int, tid, text);

-- A unit is set aside whole; its handler is called again with what it was called with.
alter table gapless.dead_letter_event add column is_kept boolean not null default true;

comment on column gapless.dead_letter_event.is_kept is
  'Whether the handler saw it: false for what the filter of its group did not keep.';

drop function if exists gapless.set_aside(
  text, int, int, bigint, bigint[], text, text, text, text, text, int, interval, boolean, text, double precision
);
