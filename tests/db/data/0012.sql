-- A file in a bucket, in two pieces, and an object that nothing names any more.
insert into stored_pieces (name, first, bytes, key, sha256) values
    ('videos/00000000-0000-4000-8000-000000000601/source', 0, 10, 'aa/aa01', decode(repeat('0a', 32), 'hex')),
    ('videos/00000000-0000-4000-8000-000000000601/source', 10, 5, 'bb/bb02', decode(repeat('0b', 32), 'hex'));
insert into stored_garbage (key) values ('cc/cc03');
