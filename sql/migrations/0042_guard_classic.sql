-- What is shown or announced under classic names was changed under an advisory lock, which anybody who may connect may
-- take: one of these instead, as all that 0013 made (I11).
create table gapless.guard_classic ();

comment on table gapless.guard_classic is 'Locked while it is changed what is shown or announced under classic names.';
