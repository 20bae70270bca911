-- Topics with schemas (as consume/parts/needed_rows.sql).
values ('topic', 'topic_schema', 'topic_id')
