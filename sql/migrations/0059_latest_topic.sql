-- Rows of latest name their topic by a foreign key no longer: it was half of a step's CPU where each key comes once.
-- They come and go under a row of compaction, which keeps its own; hold_compacted_topic.sql holds a topic otherwise.
alter table gapless.latest drop constraint latest_topic_id_fkey;
