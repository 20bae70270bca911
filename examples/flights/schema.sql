-- The tables of the flights demo. Safe to run again: nothing that is there is touched.

create schema if not exists flights_demo;

-- One row for each carrier and day (the scheduled day of departure, in New York).
create table if not exists flights_demo.punctuality (
  carrier text collate "C" not null,
  day date not null,
  scheduled int not null,
  cancelled int not null,            -- never left
  departed int not null,
  diverted int not null,             -- landed elsewhere; some of them came to their destination later
  arrived int not null,              -- at the destination, the diverted ones that came later included
  arrived_timed int not null,        -- of these: with a known delay; divide arr_delay_min_sum by it
  arrived_late int not null,         -- of these: 15 minutes late or more
  dep_delay_min_sum int not null,    -- negative delays (early) count as such
  arr_delay_min_sum int not null,
  primary key (carrier, day)
) with (fillfactor = 50);            -- updated in place for every flight

-- Where each aircraft was seen last. Collation "C", because ties are decided by text and must come
-- out the same everywhere.
create table if not exists flights_demo.positions (
  tailnum text collate "C" primary key,
  at timestamptz not null,
  flight text collate "C" not null,
  airport text collate "C" not null,
  lat double precision not null,
  lon double precision not null,
  status text not null,              -- departed (it may still be under way) or arrived
  partition_id int not null,         -- the event that says so
  c_offset bigint not null
) with (fillfactor = 50);

-- Every event that a group handled. No unique constraint, on purpose: an event handled twice would
-- be here twice, and the count at the end would show it.
create table if not exists flights_demo.handled (
  group_id text not null,
  partition_id int not null,
  c_offset bigint not null,
  handled_ts timestamptz not null default clock_timestamp()
);

-- Departures of each carrier from each airport in each hour: what the pipeline `hourly` writes.
create table if not exists flights_demo.hourly (
  carrier text collate "C" not null,
  airport text collate "C" not null,
  hour timestamptz not null,
  departed int not null,
  departed_late int not null,        -- 15 minutes late or more
  delay_min_sum int not null,
  primary key (carrier, airport, hour)
);
