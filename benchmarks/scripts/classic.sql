\set key random(1, 1000)
with taken as (
  update baseline.classic_counter set next_offset = next_offset + 1
  where counter_id = 1
  returning next_offset - 1 as c_offset
)
insert into baseline.classic_message_t (c_offset, key, event_type, payload)
select c_offset, :key, 'bench', :payload from taken;
