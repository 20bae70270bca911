insert into gapless.outbox_message_t (key, event_type, payload) values ('hot', 'bench', :payload);
