-- Rows that the log always has, and those of topics (as consume/parts/needed_rows.sql).
values
  ('sequencer', null, null), ('log_config', null, null), ('clock_look', null, null), ('retention_state', null, null),
  ('topic', 'log_segment', null), ('topic', 'chunk_end', 'topic_id'),
  ('log_segment', 'sequencer where events > 0', null), ('topic', 'consumer_group', 'topic_id')
