-- Attempts that ended, in two shards.
insert into attempts (kind, pool, outcome, bucket, shard, count, seconds) values
    ('old.kind', 'default', 'completed', 2, 0, 3, 2.5),
    ('old.kind', 'default', 'completed', 2, 1, 2, 1.5);
