-- Return the expression of an event's key, over a row r. By the template, a column that is null or gone being '';
-- without one the primary key; where that is gone, '' for all, so that they stay in order.
create or replace function gapless.captured_key(_asked gapless.captured, _root oid, _identity text) returns text
language sql stable as $$
  select case
    when (_asked).key_parts is null then coalesce(_identity, '''''::text')
    else (
      select 'concat(' || string_agg(
        case
          when u.n % 2 = 1 then quote_literal(u.part)
          else coalesce(
            'r.' || quote_ident(gapless.captured_column(_asked, _root, u.part, (_asked).key_numbers[u.n / 2])),
            ''''''
          )
        end, ', ' order by u.n
      ) || ')'
      from unnest((_asked).key_parts) with ordinality u (part, n)
    )
  end
$$;
