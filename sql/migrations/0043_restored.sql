-- Ids up to here came from another cluster: their xids are others than those of now (functions/sequence/rebase.sql).
alter table gapless.sequencer add column restored_upto bigint not null default 0;
