-- Rows of the layouts of topics (as consume/parts/needed_rows.sql).
values ('topic', 'layout', 'topic_id'), ('layout', 'topic where layout > 0', 'topic_id')
