-- Events whose offset is written into their own row after the commit.
create schema if not exists baseline;

create table baseline.numbered_message_t as
select null::bigint as c_offset, o.* from gapless.outbox_message_t o;

alter table baseline.numbered_message_t add primary key (id);

create index numbered_message_offset on baseline.numbered_message_t (c_offset);
