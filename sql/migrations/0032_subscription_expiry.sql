-- Subscriptions that go when nobody renews them: never by default (functions/subscription/subscribe.sql). Idle time
-- is read from one clock that stands still while nobody looks (expire_subscriptions.sql): ten thousand rows
-- are not written at each look. subscribe() gets an argument more, so it is made anew.

create table gapless.expiry_clock (
  only_row boolean primary key default true check (only_row),
  watched interval not null default '0',
  looked_ts timestamptz not null default clock_timestamp()
);

insert into gapless.expiry_clock default values;

comment on table gapless.expiry_clock is
  'For how long somebody has looked after subscriptions that expire: times without any supervisor count for nothing.';

alter table gapless.subscription
  add column expires_after interval,
  add column renewed_at interval not null default '0';

comment on column gapless.subscription.expires_after is
  'It goes when nobody renews it for so long; null: never.';
comment on column gapless.subscription.renewed_at is
  'When it was made or renewed last, on expiry_clock.';

create index subscription_expiring on gapless.subscription ((renewed_at + expires_after))
  where expires_after is not null;

drop function if exists gapless.subscribe(text, text, text, jsonb, jsonb, text);
