-- How many workers a supervisor has for a queue group was never said by anybody: sessions tell it
-- (sessions_needed, status).

drop function if exists gapless.set_workers(uuid, text, int, int);

alter table gapless.member_group drop column workers;
