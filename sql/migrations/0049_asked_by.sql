-- Whoever a session says that it acts for stands behind its role in the audit: of a gateway, the key or the token.
alter table gapless.audit alter column who set default
  session_user || coalesce(' (' || nullif(current_setting('gapless.asked_by', true), '') || ')', '');
