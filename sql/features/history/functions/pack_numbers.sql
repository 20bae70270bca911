-- Return numbers in as few bytes each as their range needs: the width, the lowest number less 1, and each number's
-- distance from that; 0 stands for null. Equal numbers take no byte each, and nulls alone none at all.
-- unpack_numbers() is the inverse.
create or replace function gapless.pack_numbers(_numbers bigint[]) returns bytea
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select case
    when x.base is null then ''::bytea
    else substring(int4send(x.width) from 4) || int8send(x.base) || case
      when x.width = 0 then ''::bytea
      else (
        select string_agg(substring(int8send(coalesce(n.number - x.base, 0)) from 9 - x.width), '' order by n.nth)
        from unnest(_numbers) with ordinality n (number, nth)
      )
    end
  end
  from (
    select min(n) - 1 as base,
      case
        when min(n) = max(n) and count(n) = count(*) then 0
        else (length(to_hex(max(n) - min(n) + 1)) + 1) / 2
      end as width
    from unnest(_numbers) n
  ) x
$$;
