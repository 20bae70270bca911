-- Rows of endpoints that others name, and their topics (as consume/parts/needed_rows.sql).
values ('topic', 'webhook', 'topic_id'), ('webhook', 'webhook_state', 'name')
