\set key random(1, 1000)
insert into gapless.outbox_message_t (key, event_type, payload) values (:key, 'bench', :payload);
