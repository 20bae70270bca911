-- Record when a unit's next_attempt_ts was set, from which heal_letters() derives its delay.
create or replace function gapless.stamp_due() returns trigger
language plpgsql as $$
begin
  new.due_set_ts := clock_timestamp();
  return new;
end
$$;

create or replace trigger dead_letter_due before insert or update of next_attempt_ts on gapless.dead_letter
for each row execute function gapless.stamp_due();
