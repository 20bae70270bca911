-- One script a partition: {partition} is its number.
with reserved as (
  update baseline.partition_counter set next_offset = next_offset + 1
  where partition_id = {partition}
  returning next_offset - 1 as c_offset
)
insert into baseline.partition_{partition} (c_offset, payload)
select c_offset, :payload::bytea from reserved;
