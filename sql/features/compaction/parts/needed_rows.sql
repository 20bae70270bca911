-- Topics that are compacted (as consume/parts/needed_rows.sql).
values ('topic', 'compaction', 'topic_id')
