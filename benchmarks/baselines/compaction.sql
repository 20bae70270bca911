-- The rival of a compacted topic: a table of one row a key, and how far it was filled.
create schema if not exists baseline;

create table baseline.newest (key text primary key, id bigint not null, payload json not null, headers jsonb);
create table baseline.newest_place (upto bigint not null);

insert into baseline.newest_place values (0);
