-- The rival of a compacted topic: a table with one row a key, and the position up to which it is filled.
create schema if not exists baseline;

create table baseline.newest (key text primary key, id bigint not null, payload json not null, headers jsonb);
create table baseline.newest_place (upto bigint not null);

insert into baseline.newest_place values (0);
