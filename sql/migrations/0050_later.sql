-- promote() says behind which event the next call begins, so that what an open cancel() holds is stepped over once.
-- It and move_due() return more, so they are made anew; programs of before call promote() as they did.
drop function if exists gapless.promote(int, timestamptz);
drop function if exists gapless.move_due(int, timestamptz, timestamptz, xid8[]);
