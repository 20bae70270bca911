-- Rows that the log always has, and those of topics (as consume/parts/needed_rows.sql).
values
  ('sequencer', null, null), ('log_config', null, null), ('topic', 'log_segment', null),
  ('log_segment', 'sequencer where events > 0', null), ('topic', 'consumer_group', 'topic_id')
