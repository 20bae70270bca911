-- Parse a cause (tell_cause()), `group/topic/partition@offset`: with `..offset` for a batch, and `~timeline` where that
-- is not 1. All columns are null for any other text: producers may write any text.
--   select * from gapless.parse_cause('billing/orders/3@17');
create or replace function gapless.parse_cause(
  cause text, out group_id text, out topic text, out partition_id int, out first_offset bigint,
  out last_offset bigint, out timeline int
)
language sql immutable parallel safe as $$
  select m[1], m[2], m[3]::int, m[4]::bigint, coalesce(m[5], m[4])::bigint,
    case when m is not null then coalesce(m[6], '1')::int end
  from (
    select case when length(parse_cause.cause) <= 1000 then regexp_match(
      parse_cause.cause,
      E'^(.+)/([A-Za-z0-9._-]+)/([0-9]{1,9})@([0-9]{1,18})(?:\\.\\.([0-9]{1,18}))?(?:~([0-9]{1,9}))?$'
    ) end
  ) as x (m)
$$;
