-- Webhooks that share a group: a subscription each of one group of the topic, webhooks-<topic>, instead of a group and
-- a worker process each (functions/webhook/add_webhook.sql). match_events(), add_webhook() and stop_webhook() get an
-- argument more, so they are made anew. A constant default: no row is rewritten.
alter table gapless.webhook add column shared boolean not null default false;

comment on column gapless.webhook.shared is
  'Whether it is a subscription of the group that webhooks of its topic share, and has none of its own.';

comment on table gapless.subscription_stop is
  'Subscriptions that are stopped in a partition (a condition raised, an endpoint is dead): their events wait there.';

drop function if exists gapless.match_events(text, int, bigint[]);
drop function if exists gapless.match_events(text, int, int, bigint[], text);    -- as it was at 0039
drop function if exists gapless.add_webhook(
  text, text, text, text[], text[], text, jsonb, double precision, int, boolean, int[], boolean, text
);
drop function if exists gapless.stop_webhook(text, text);
