-- Raise GL003: the events of a receipt are no longer in its holder's hands (Q2).
create or replace function gapless.refuse_receipt(_receipt text) returns void
language plpgsql as $$
begin
  raise exception 'the receipt counts no more: another took the events, or they were answered for (%)',
    _receipt
    using errcode = 'GL003';
end
$$;
