-- Groups of endpoints (as lease/parts/no_client_reasons.sql).
select 'webhook-' || w.name, format('group "webhook-%s" is a webhook''s, whose handler is built in', w.name)
from gapless.webhook w
