-- Rows of the floors of queue groups (as consume/parts/needed_rows.sql).
values
  ('queue_floor', $$lease join gapless.consumer_group using (group_id, topic_id) where mode = 'queue'$$, 'lease_no')
