-- Call an endpoint with the events of a topic, or change the webhook of that name. Returns whether it is new.
--   select gapless.add_webhook('shop', 'orders', 'https://shop.example/hooks', array['env:SHOP_SECRET']);
-- secrets: where the delivering worker finds them, 'env:NAME' or 'file:/PATH'; two while one replaces the other.
-- event_types, condition, params: the events to send, as set_filter() takes them; none: all. rate: requests a second.
-- concurrency: requests at a time. keeps_order: later events of a key wait behind one that failed.
-- retry_delays_s: seconds until the second, third, … attempt; null: the setting of the delivering worker. allow_http:
-- the URL may begin with http. start: 'latest' or 'earliest', where a new webhook begins.
-- shared: the webhook is a subscription of the group that the topic's webhooks share, instead of a group; one worker
-- serves all of these. matches: the params that have to be equal to parts of the event, and sql_condition, as
-- subscribe() takes them; for shared webhooks alone. A shared one has no concurrency, keeps_order, retry_delays_s and
-- start of its own. Its group is created here, so it misses nothing from this commit on. An existing webhook continues
-- where it is, and keeps its topic. Raises GL400, GL404 (topic), GL409 (another topic; it is being removed).
-- locks: the webhook's row, then as create_group() and set_filter()
create or replace function gapless.add_webhook(
  name text, topic text, url text, secrets text[], event_types text[] default null, condition text default null,
  params jsonb default null, rate double precision default null, concurrency int default null,
  keeps_order boolean default false, retry_delays_s int[] default null, allow_http boolean default false,
  start text default 'latest', shared boolean default false, matches jsonb default null,
  sql_condition text default null
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
  made.shared := coalesce(add_webhook.shared, false);
  made.concurrency := coalesce(add_webhook.concurrency, 16);
  made.rate := add_webhook.rate;
  made.retry_delays_s := add_webhook.retry_delays_s;
  perform gapless.check_webhook(made);
  if made.shared and (
    made.keeps_order or add_webhook.concurrency is not null or made.retry_delays_s is not null
    or add_webhook.start is distinct from 'latest'
  ) then
    raise exception 'webhook "%": one that shares a group has no order, concurrency, retries or start of its own: %',
      made.name, 'leave shared out, and it has a group of its own'
      using errcode = 'GL400';
  end if;
  if not made.shared and (add_webhook.matches is not null or add_webhook.sql_condition is not null) then
    raise exception 'webhook "%": only one that shares a group has values to match or an SQL condition', made.name
      using errcode = 'GL400';
  end if;
  select w.* into before from gapless.webhook w where w.name = made.name for update;
  if before.removed_ts is not null then
    raise exception 'webhook "%" is being removed: wait until the supervisors that deliver have let go', made.name
      using errcode = 'GL409';
  end if;
  if before.topic_id <> made.topic_id then
    raise exception 'webhook "%" is of another topic: remove it first, or take another name', made.name
      using errcode = 'GL409';
  end if;
  if before.shared <> made.shared then
    raise exception 'webhook "%" %: remove it first, or take another name', made.name,
      case when before.shared then 'shares a group' else 'has a group of its own' end
      using errcode = 'GL409';
  end if;
  insert into gapless.webhook as w
    (name, topic_id, url, secrets, allow_http, keeps_order, concurrency, rate, retry_delays_s, shared)
  values (
    made.name, made.topic_id, made.url, made.secrets, made.allow_http, made.keeps_order, made.concurrency,
    made.rate, made.retry_delays_s, made.shared
  )
  on conflict (name) do update
  set url = excluded.url, secrets = excluded.secrets, allow_http = excluded.allow_http,
    keeps_order = excluded.keeps_order, concurrency = excluded.concurrency, rate = excluded.rate,
    retry_delays_s = excluded.retry_delays_s;
  insert into gapless.webhook_state (name) values (made.name) on conflict do nothing;
  if made.shared then
    perform gapless.share_webhook(
      made, add_webhook.topic, add_webhook.event_types, add_webhook.matches, add_webhook.params, add_webhook.condition,
      add_webhook.sql_condition
    );
    perform gapless.note_change_of_webhook('webhook', made);
    return before.name is null;
  end if;
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
