-- Rows without which a lease makes no sense, or that make none without it (as consume/parts/needed_rows.sql).
values
  ('consumer_group', 'lease', 'group_id, topic_id'),
  ('lease', 'consumer_offsets join gapless.topic using (topic_id) where epoch > 0 and partition_id < partitions',
    'group_id, topic_id, partition_id')
