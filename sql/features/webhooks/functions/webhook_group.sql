-- Return the consumer group of a webhook: as Python's group_of().
create or replace function gapless.webhook_group(_name text) returns text
language sql immutable as $$
  select 'webhook-' || _name
$$;
