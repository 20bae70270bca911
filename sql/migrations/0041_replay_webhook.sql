-- A webhook that shares a group can be sent again what it got (functions/webhook/replay_webhook.sql). What sets aside
-- for one subscription gets an argument more, so it is made anew.
drop function if exists gapless.set_missed_aside(text, int, int, bigint, bigint, bigint);
