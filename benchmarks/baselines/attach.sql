-- An application's outbox, and the same table without a trigger.
create table public.attached (
  id bigint generated always as identity primary key, customer text not null, body jsonb not null
);
create table public.unattached (like public.attached including all);
