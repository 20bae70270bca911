-- Rows of filters and subscriptions that others name (as consume/parts/needed_rows.sql).
values
  ('condition', 'subscription_form where condition_digest is not null', null),
  ('group_filter', 'filter_tally', 'group_id, topic_id'), ('group_filter', 'subscription_form', 'group_id, topic_id'),
  ('subscription_form', 'subscription', 'form_id'), ('subscription', 'subscription_stop', 'subscription_id')
