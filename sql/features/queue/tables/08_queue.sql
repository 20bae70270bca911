-- Queue groups: any number of workers, and of clients in any language, share a partition, without order between them
-- (docs/why/decisions/0016-queue-groups.md). Nothing is written to the log for it: a range of events that are finished
-- ahead of the floor is a row, which goes when the floor passes it.

-- The place of a queue group: all events below next_offset are finished or set aside. Appended, never updated: the
-- newest row of an index is found as fast while an old snapshot is held. consumer_offsets follows it.
create table gapless.queue_floor (
  lease_no int not null,
  version bigint not null,
  next_offset bigint not null,
  block int not null,
  is_paused boolean not null default false,
  place tid,                           -- where the row of consumer_offsets was then
  primary key (lease_no, version),
  constraint queue_floor_from_one check (next_offset >= 1)
);

comment on table gapless.queue_floor is 'Of queue groups: all below next_offset, in the newest row, is done.';

-- Taken ranges at or above the floor. A block is taken from its beginning on, so its part without a row is its end.
-- Eight columns: with a ninth each row would be eight bytes longer. No checks: they are a tenth of the cost of an
-- INSERT, and only functions of gapless write here.
create table gapless.queue_range (
  first_offset bigint not null,
  last_offset bigint not null,
  lease_no int not null,
  tries smallint not null default 0,   -- deliveries without an answer
  token uuid,                          -- of the holder of a reservation
  deadline timestamptz,                -- null: finished; else in hand until then, and open from then on
  holder text,                         -- the client that took it; null: a worker, whose COMMIT must be declared
  since_ts timestamptz,
  primary key (lease_no, first_offset)
) with (fillfactor = 90);

comment on table gapless.queue_range is
  'Of queue groups: ranges at or above the floor that are finished (deadline null), in hand, or open again.';
