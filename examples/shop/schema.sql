-- The shop's own tables. Nothing of gapless is in them: what a handler writes is ordinary rows.
create table if not exists stock (
  article text primary key,
  pieces int not null check (pieces >= 0)
);

create table if not exists customer_order (
  order_no int primary key generated always as identity,
  customer text not null,
  article text not null,
  pieces int not null check (pieces > 0),
  state text not null default 'placed'
);

create table if not exists payment (
  order_no int primary key references customer_order,
  cents int not null
);

create table if not exists reservation (
  order_no int primary key references customer_order,
  pieces int not null
);
