-- A death in a queue group is noted with the name of who died, so that a reservation that another has made since stays.

-- It takes a fourth argument now.
drop function if exists gapless.note_death(int, bigint, bigint);
