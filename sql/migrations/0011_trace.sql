-- Traces: the dead letters of a chain are found by its correlation, also where retention has dropped
-- their events.

create index dead_letter_event_correlation on gapless.dead_letter_event (correlation)
  where correlation is not null;
