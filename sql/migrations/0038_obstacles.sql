-- Who stands in others' way: a lock that nobody may take without a right, and when a client last asked for events.

-- What is shown or announced under classic names was changed under an advisory lock, which anybody who may connect may
-- take: as all that 0013 made (I11).
create table gapless.guard_classic ();

comment on table gapless.guard_classic is 'Locked while it is changed what is shown or announced under classic names.';

-- Without a default: no row is rewritten.
alter table gapless.member add column polled_ts timestamptz;

comment on column gapless.member.polled_ts is
  'Of a client: when it last polled, to a twentieth of its ttl. Null: never, or it is none.';
