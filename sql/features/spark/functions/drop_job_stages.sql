-- Drop the stages of a job of Spark, whose tokens begin as its own: it published them, or never will.
create or replace function gapless.drop_job_stages(_job uuid) returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select gapless.drop_stages(array(
    select s.token from gapless.stage s
    where left(s.token::text, 18) = left(_job::text, 18)
  ))
$$;
