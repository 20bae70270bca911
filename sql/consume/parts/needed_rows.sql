-- Rows of groups without which others make no sense (lost_rows.sql): lost is a table, key columns of it that needed
-- has, too. key null: whether lost has rows is all that is checked. needed null: it always has some.
select * from (
  values
    ('consumer_offsets', 'lease', null), ('dead_letter', 'dead_letter_event', null),
    ('dead_letter_event', $$dead_letter where state in ('waiting', 'parked', 'dead')$$, null),
    ('consumer_group', 'consumer_offsets', 'group_id, topic_id')
) n (lost, needed, key)
