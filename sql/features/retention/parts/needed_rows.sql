-- Rows that retention always has, and topics of chunks (as consume/parts/needed_rows.sql).
values
  ('clock_look', null, null), ('retention_state', null, null), ('topic', 'chunk_end', 'topic_id')
