-- Raises GL003: what a receipt was for is not in its holder's hands any more (Q2).
create or replace function gapless.refuse_receipt(_receipt text)
returns void
language plpgsql
as $$
begin
  raise exception 'the receipt counts no more: another took the events, or they were answered for (%)',
    _receipt
    using errcode = 'GL003';
end
$$;
