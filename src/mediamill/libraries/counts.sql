-- How many assets there are of what (counts.py).

-- name: read_counting
-- What is kept of these libraries' counts, or of all that have some; and whether anything moves that is counted.
select l.number, c.counted_at, c.assets, c.was_moving, extract(epoch from now() - c.counted_at)::float8 as age_seconds,
    coalesce(greatest(l.scanned_at, l.scan_beat_at) >= c.counted_at, false) or l.scan_status <> 'idle'
    or l.erasing_at is not null or l.is_active and exists (
        select from assets a where a.library = l.number and a.type = any ('{image,video}'::text[])
            and a.status = any ('{pending,extracting,analyzing}'::text[]) and a.vanished_at is null) as is_moving
from libraries l left join library_counts c on c.library = l.number
where l.number = any (:libraries::int[]) or :libraries::int[] is null and c.library is not null;

-- name: may_count
-- One at a time for each library: whoever else wants it takes what was counted before.
select pg_try_advisory_xact_lock(hashtext('library counts'), :library);

-- name: count_assets
-- Every asset of a library: without a month, if it vanished.
select type, status, to_char(month, 'YYYY-MM') as month, assets, bytes,
    case when month is null then assets else 0 end as vanished
from (
    select type, status, case when vanished_at is null then date_trunc('month', shown_at) end as month,
        count(*) as assets, sum(size)::bigint as bytes
    from assets where library = :library group by 1, 2, 3) counted;

-- name: note_counted!
insert into library_counts (library, assets, was_moving) values (:library, :assets, :moving)
on conflict (library) do update set counted_at = now(), assets = excluded.assets, was_moving = excluded.was_moving;

-- name: drop_counts!
delete from asset_counts where library = :library;

-- name: forget_counted!
delete from library_counts where library = :library;

-- name: put_counts!
insert into asset_counts (library, type, status, month, assets, bytes)
select :library, c.* from unnest(:type::text[], :status::text[], :month::text[], :assets::bigint[], :bytes::bigint[]) c;

-- name: kept_totals
select library, type, status, sum(assets)::bigint as assets, sum(bytes)::bigint as bytes,
    coalesce(sum(assets) filter (where month is null), 0)::bigint as vanished
from asset_counts where library = any (:libraries::int[]) group by 1, 2, 3;

-- name: kept_months
select month, sum(assets)::bigint as assets from asset_counts
where library = :library and month is not null and type = any (:types::text[]) and status = any (:statuses::text[])
group by month order by month desc;
