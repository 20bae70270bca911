-- Make a webhook a subscription of the group that its topic's webhooks share; a part of add_webhook(), which has
-- checked that it may be one. The group is created with the first of them. Raises GL400 for an invalid subscription,
-- GL409 when a group of that name is not one of webhooks.
-- locks: as create_group() and subscribe()
create or replace function gapless.share_webhook(
  _webhook gapless.webhook, _topic text, _event_types text[], _match jsonb, _params jsonb, _condition text,
  _sql_condition text
) returns void
language plpgsql as $$
declare
  own_group text := gapless.shared_webhook_group(_topic);
  given jsonb := coalesce(_params, '{}');
  asked text := _sql_condition;
begin
  if exists (select from gapless.consumer_group g where g.group_id = own_group)
    and not exists (
      select from gapless.webhook w where w.shared and w.topic_id = _webhook.topic_id and w.name <> _webhook.name
    )
    and not exists (
      select from gapless.subscription s where s.group_id = own_group and s.name = _webhook.name
    )
  then
    raise exception 'there is a group "%", which is none of webhooks: drop it, for they share one of that name',
      own_group
      using errcode = 'GL409';
  end if;
  perform gapless.create_group(own_group, _topic, 'latest');
  if _event_types is not null then    -- one text for all of them: the differences are params
    given := given || jsonb_build_object('gapless-types', (
      select '^(' || string_agg(
        replace(regexp_replace(t, '([^[:alnum:]_*])', E'\\\\\\1', 'g'), '*', '.*'), '|'
      ) || ')$'
      from unnest(_event_types) t
    ));
    asked := concat_ws(
      ' and ', '(' || asked || ')', 'coalesce(e.event_type, '''') ~ (s.params ->> ''gapless-types'')'
    );
  end if;
  perform gapless.subscribe(
    own_group, _topic, _webhook.name, coalesce(_match, '{}'), given,
    case when _condition is null and asked is null and coalesce(_match, '{}') = '{}' then '1 == 1' else _condition end,
    sql_condition => asked
  );
end
$$;
