-- A file that a bridge still holds.
insert into awaited_files (guid) values ('held-by-bridge');
