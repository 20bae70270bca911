-- The pipeline's target: a row for each article, to which each batch adds.
create table if not exists sold (
  article text primary key,
  orders bigint not null,
  pieces bigint not null
);
