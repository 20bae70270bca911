-- The audit has the role of a session and behind it the caller that it acts for: of a gateway, the key or the token.
alter table gapless.audit alter column who set default
  session_user || coalesce(' (' || nullif(current_setting('gapless.asked_by', true), '') || ')', '');
