-- Raise GL400 for invalid values of a webhook, one line each. Whether an address may be called is checked at the call.
create or replace function gapless.check_webhook(_wanted gapless.webhook) returns void
language plpgsql immutable as $$
declare
  place text := format('webhook "%s"', left(_wanted.name, 100));
  wrong text := case
    when _wanted.name is null or _wanted.name !~ '^[A-Za-z0-9_-]{1,100}$'
      then 'a name has 1 to 100 letters, digits, dashes and underscores'
    when _wanted.url is null or length(_wanted.url) > 2000 or _wanted.url !~ '^https?://[!-~]+$'
      or _wanted.url ~ '^[a-z]+://[^/?]*@' or _wanted.url ~ E'[\\\\#]'
      then E'give a URL https://host/path of at most 2000 ASCII characters, without user, spaces, # and \\'
    when _wanted.url ~ '^http:' and not coalesce(_wanted.allow_http, false)
      then 'the URL is not https: allow http where it cannot be read on the way'
    when _wanted.secrets is null or cardinality(_wanted.secrets) not between 1 and 2
      then 'give one secret, or two while one replaces the other'
    when exists (
      select from unnest(_wanted.secrets) s (said)
      where s.said is null or length(s.said) > 500
        or s.said !~ '^(env:[A-Za-z_][A-Za-z0-9_]*|file:/[^[:cntrl:]]+)$'
    )
      then 'a secret is given by where it is, env:NAME or file:/PATH, and never itself'
    when _wanted.concurrency is null or _wanted.concurrency not between 1 and 1000
      then 'concurrency is 1 to 1000 requests'
    when not _wanted.rate between 0.01 and 100000
      then 'rate is 0.01 to 100000 requests a second'
    when cardinality(_wanted.retry_delays_s) > 100 or exists (
      select from unnest(_wanted.retry_delays_s) d (s) where d.s is null or d.s not between 0 and 2678400
    )
      then 'retry_delays_s are at most 100 delays of 0 to 2678400 seconds'
  end;
begin
  if wrong is not null then
    raise exception '%: %', place, wrong
      using errcode = 'GL400';
  end if;
end
$$;
