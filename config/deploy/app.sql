-- The table of app.py.
create table bill (customer text, total int);
