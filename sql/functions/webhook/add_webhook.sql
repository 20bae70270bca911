-- Have an endpoint called with the events of a topic, or change the one of that name. Returns whether it is new.
--   select gapless.add_webhook('shop', 'orders', 'https://shop.example/hooks', array['env:SHOP_SECRET']);
-- secrets: where whoever delivers finds them, 'env:NAME' or 'file:/PATH'; two while one replaces the other.
-- event_types, condition, params: which events, as set_filter() takes them; none: all. rate: requests a second.
-- concurrency: requests at a time. keeps_order: later events of a key wait behind one that failed.
-- retry_delays_s: seconds until the second, third, … attempt; null: as whoever delivers has it. allow_http: the URL
-- may begin with http. start: 'latest' or 'earliest', where a new one begins.
-- Its group is made here, so it misses nothing from this commit on. One that is there continues where it is; it keeps
-- its topic. Raises GL400, GL404 (topic), GL409 (another topic; it is being removed).
-- locks: the webhook's row, then as create_group() and set_filter()
create or replace function gapless.add_webhook(
  name text, topic text, url text, secrets text[], event_types text[] default null, condition text default null,
  params jsonb default null, rate double precision default null, concurrency int default 16,
  keeps_order boolean default false, retry_delays_s int[] default null, allow_http boolean default false,
  start text default 'latest'
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  before gapless.webhook;
  made gapless.webhook;
  own_group text := gapless.webhook_group(add_webhook.name);
begin
  made.name := add_webhook.name;
  made.topic_id := gapless.topic_id(add_webhook.topic);
  made.url := add_webhook.url;
  made.secrets := add_webhook.secrets;
  made.allow_http := coalesce(add_webhook.allow_http, false);
  made.keeps_order := coalesce(add_webhook.keeps_order, false);
  made.concurrency := add_webhook.concurrency;
  made.rate := add_webhook.rate;
  made.retry_delays_s := add_webhook.retry_delays_s;
  perform gapless.check_webhook(made);
  select w.* into before from gapless.webhook w where w.name = made.name for update;
  if before.removed_ts is not null then
    raise exception 'webhook "%" is being removed: wait until the supervisors that deliver have let go', made.name
      using errcode = 'GL409';
  end if;
  if before.topic_id <> made.topic_id then
    raise exception 'webhook "%" is of another topic: remove it first, or take another name', made.name
      using errcode = 'GL409';
  end if;
  insert into gapless.webhook as w
    (name, topic_id, url, secrets, allow_http, keeps_order, concurrency, rate, retry_delays_s)
  values (
    made.name, made.topic_id, made.url, made.secrets, made.allow_http, made.keeps_order, made.concurrency,
    made.rate, made.retry_delays_s
  )
  on conflict (name) do update
  set url = excluded.url, secrets = excluded.secrets, allow_http = excluded.allow_http,
    keeps_order = excluded.keeps_order, concurrency = excluded.concurrency, rate = excluded.rate,
    retry_delays_s = excluded.retry_delays_s;
  insert into gapless.webhook_state (name) values (made.name) on conflict do nothing;
  if before.name is null then
    perform gapless.create_group(own_group, add_webhook.topic, add_webhook.start);
  end if;
  if add_webhook.event_types is null and add_webhook.condition is null then
    perform gapless.clear_filter(own_group, add_webhook.topic);
  else
    perform gapless.set_filter(
      own_group, add_webhook.topic, add_webhook.event_types, add_webhook.condition, add_webhook.params
    );
  end if;
  perform gapless.note_change_of_webhook('webhook', made);
  return before.name is null;
end
$$;
