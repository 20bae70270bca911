-- Headers that are no JSON object are refused of every writer: handlers found nothing in them. What is there
-- already stays, and is read as an event without headers: NOT VALID MUST stay, here and where a copy of such events
-- becomes a chunk (functions/retention/empty_default_chunk.sql). No rewrite, and nothing is read.
alter table gapless.outbox_message_t
  add constraint headers_are_an_object check (headers @> '{}') not valid;
