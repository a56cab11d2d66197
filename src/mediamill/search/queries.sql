-- What can be found. Every row of a vector or text belongs to one thing, and goes with it.

-- name: ensure_model
-- Asked every second, so nothing is written for one that is there.
with found as (select id from ai_models where name = :name), added as (
    insert into ai_models (name, task, engine, dimensions)
    select :name, :task, :engine, :dimensions::int where not exists (select from found)
    on conflict (name) do update set dimensions = coalesce(ai_models.dimensions, excluded.dimensions) returning id)
select id from found union all select id from added limit 1;

-- name: find_model
select id from ai_models where name = :name;

-- name: embedders
select m.id, m.name, m.task, m.engine from system_metadata s
join ai_models m on m.id in ((s.value ->> 'text')::int, (s.value ->> 'look')::int) where s.key = 'embedders';

-- name: older_models
-- Those that were used before, and that still have vectors.
select m.task, m.name from ai_models m join system_metadata s on s.key = 'embedders'
where m.task in ('text', 'look') and m.id not in ((s.value ->> 'text')::int, (s.value ->> 'look')::int)
    and exists (select from search_vectors v where v.model_id = m.id)
order by m.id desc limit :amount;

-- name: set_embedders
-- What was there before; null if it is the same, or the first.
with before as (select value from system_metadata where key = 'embedders' for update), after as (
    insert into system_metadata (key, value) values ('embedders', :value::jsonb)
    on conflict (key) do update set value = excluded.value)
select value from before where value <> :value::jsonb;

-- name: drop_vectors_of_others!
-- Of an asset, a scene or a frame; each arm has its index.
delete from search_vectors where model_id <> all (:model_ids::int[]) and (scene_id = :scene_id or frame_id = :frame_id
    or asset_id = :asset_id and scene_id is null and frame_id is null
    and :scene_id::bigint is null and :frame_id::bigint is null);

-- name: drop_unused_vectors
-- A batch of those whose models nobody uses, where new ones have come by now, or never will: of libraries that have been
-- gone through and wait for nothing, and of entries if all of them have theirs.
with unused as materialized (
    select m.id from ai_models m join system_metadata s on s.key = 'embedders'
    where m.task in ('text', 'look') and m.id not in ((s.value ->> 'text')::int, (s.value ->> 'look')::int)
), settled as materialized (
    select number from libraries l where retag_after is null and not exists (select from assets a
        where a.library = l.number and a.type = any ('{image,video}'::text[])
            and a.status = any ('{proxied,analyzing}'::text[]) and a.vanished_at is null)
)
delete from search_vectors where id = any (array(
    (select v.id from unused u, settled l, lateral (
        select id from search_vectors where model_id = u.id and library = l.number limit :batch) v)
    union all
    (select v.id from unused u, lateral (
        select id from search_vectors where model_id = u.id and library is null limit :batch) v
    where not exists (select from search_entries where embedded_by is null))
    limit :batch))
returning id;

-- name: unused_indexes
-- Of models that nobody uses and that have no vectors any more.
select m.id, m.dimensions from ai_models m join system_metadata s on s.key = 'embedders'
join pg_class c on c.relname = 'search_vectors_model_' || m.id and c.relnamespace = current_schema()::regnamespace
where m.task in ('text', 'look') and m.id not in ((s.value ->> 'text')::int, (s.value ->> 'look')::int)
    and not exists (select from search_vectors v where v.model_id = m.id)
order by m.id;

-- name: drop_vectors!
-- By equality, since "is not distinct from" would read the whole table: each arm has its index, and null equals nothing.
delete from search_vectors where model_id = :model_id and (scene_id = :scene_id or frame_id = :frame_id
    or entry_id = :entry_id or asset_id = :asset_id and scene_id is null and frame_id is null
    and :scene_id::bigint is null and :frame_id::bigint is null);

-- name: drop_vectors_of_assets!
delete from search_vectors where asset_id = any (:ids::bigint[]) and scene_id is null and frame_id is null;

-- name: copy_vectors!
insert into search_vectors (model_id, library, asset_id, v)
select v.model_id, a.library, a.id, v.v from unnest(:ids::bigint[], :twins::bigint[]) as f (id, twin)
join assets a on a.id = f.id join search_vectors v on v.asset_id = f.twin and v.scene_id is null and v.frame_id is null;

-- name: put_vector!
-- Into a column of arrays, or of pgvector's own if the database has it.
insert into search_vectors (model_id, library, asset_id, scene_id, frame_id, entry_id, v)
values (:model_id, :library, :asset_id, :scene_id, :frame_id, :entry_id, :v::real[]);

-- name: set_up
-- For this transaction: every plan knows its values (a plan for any value reads whole indexes), nothing is read from end to
-- end, vectors are looked for until enough of them pass the filters, and nobody waits for ever.
select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '400', true),
    set_config('statement_timeout', :timeout::text, true);

-- name: set_down
select set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true),
    set_config('statement_timeout', '0', true);

-- name: read_words
-- As English; words that English leaves out ("the who") as they are, which is how names are kept too. `shown`: what is marked
-- in a text, where words still have their accents. `pairs`: of words that must follow each other; then `words` has only
-- what is not in phrases.
select query::text, shown::text, numnode(query) as nodes, pairs,
    case when pairs is null then query else nullif(websearch_to_tsquery(language, folded(:rest)), ''::tsquery) end::text as words
from (select case when numnode(english) > 0 then 'english'::regconfig else 'simple' end as language
    from websearch_to_tsquery('english', folded(:words)) english) said,
    lateral (select websearch_to_tsquery(language, folded(:words)) as query,
        websearch_to_tsquery(language, folded(:words)) || websearch_to_tsquery(language, :words) as shown,
        (select array_agg(distinct pair) from unnest(:phrases::text[]) phrase,
            unnest(word_pairs(to_tsvector(language, folded(phrase)))) pair) as pairs) read;

-- name: all_libraries
-- Those in the trash are not seen.
select number, slug, deleted_at is not null as is_hidden from libraries order by number;

-- name: newest_ids
select coalesce((select max(id) from assets), 0) as asset, coalesce((select max(id) from video_scenes), 0) as scene,
    coalesce((select max(id) from video_frames), 0) as frame, coalesce((select max(id) from search_entries), 0) as entry;

-- name: asset_words
-- `ranges`: only the newest ids (see words.py); the index knows them, and libraries, types and models, and which words
-- follow each other. Whether a row has a phrase is not asked of the index ("coalesce"), or each row that it finds would be
-- asked for its pairs again.
select id, id as asset_id, ts_rank('{0.2,0.4,0.6,1}', search_vector, :query::text::tsquery, 1) as rank from (
    select id, search_vector from assets
    where (:words::text is null or search_vector @@ :words::text::tsquery) and vanished_at is null
        and (:pairs::int[] is null or word_pairs(search_vector) @> :pairs and coalesce(search_vector @@ :query::text::tsquery, false))
        and (:ranges::int[] is null or search_keys(id, library, type, tags_model_id) && :ranges)
        and (:libraries::int[] is null or search_keys(id, library, type, tags_model_id) && :libraries)
        and (:sorts::int[] is null or search_keys(id, library, type, tags_model_id) && :sorts)
        and (:models::int[] is null or search_keys(id, library, type, tags_model_id) && :models)
        and (:local_since::timestamp is null or shown_at >= :local_since) and (:local_until::timestamp is null or shown_at < :local_until)
    limit :most) found
order by rank desc, id desc limit :amount;

-- name: scene_words
select id, asset_id, ts_rank('{0.2,0.4,0.6,1}', search_vector, :query::text::tsquery, 1) as rank from (
    select id, asset_id, search_vector from video_scenes s
    where (:words::text is null or search_vector @@ :words::text::tsquery)
        and (:pairs::int[] is null or word_pairs(search_vector) @> :pairs and coalesce(search_vector @@ :query::text::tsquery, false))
        and (:ranges::int[] is null or search_keys(id, library, 'video', tags_model_id) && :ranges)
        and (:libraries::int[] is null or search_keys(id, library, 'video', tags_model_id) && :libraries)
        and (:models::int[] is null or search_keys(id, library, 'video', tags_model_id) && :models)
        and (:local_since::timestamp is null and :local_until::timestamp is null
            or (select true from assets a where a.id = s.asset_id and (:local_since::timestamp is null or a.shown_at >= :local_since)
                and (:local_until::timestamp is null or a.shown_at < :local_until)))
    limit :most) found
order by rank desc, id desc limit :amount;

-- name: frame_words
select id, asset_id, ts_rank('{0.2,0.4,0.6,1}', search_vector, :query::text::tsquery, 1) as rank from (
    select id, asset_id, search_vector from video_frames f
    where (:words::text is null or search_vector @@ :words::text::tsquery)
        and (:pairs::int[] is null or word_pairs(search_vector) @> :pairs and coalesce(search_vector @@ :query::text::tsquery, false))
        and (:ranges::int[] is null or search_keys(id, library, 'video', tags_model_id) && :ranges)
        and (:libraries::int[] is null or search_keys(id, library, 'video', tags_model_id) && :libraries)
        and (:models::int[] is null or search_keys(id, library, 'video', tags_model_id) && :models)
        and (:local_since::timestamp is null and :local_until::timestamp is null
            or (select true from assets a where a.id = f.asset_id and (:local_since::timestamp is null or a.shown_at >= :local_since)
                and (:local_until::timestamp is null or a.shown_at < :local_until)))
    limit :most) found
order by rank desc, id desc limit :amount;

-- name: entry_words
select id, source, subject, ts_rank('{0.2,0.4,0.6,1}', search_vector, :query::text::tsquery, 1) as rank from (
    select id, source, subject, search_vector from search_entries
    where (:words::text is null or search_vector @@ :words::text::tsquery)
        and (:pairs::int[] is null or word_pairs(search_vector) @> :pairs and coalesce(search_vector @@ :query::text::tsquery, false))
        and (:ranges::int[] is null or search_keys(id, null, source, null) && :ranges)
        and (:sorts::int[] is null or search_keys(id, null, source, null) && :sorts)
        and (:types::text[] is null or facts ->> 'type' = any (:types))
        and (:since::timestamptz is null or happened_at >= :since)
        and (:until::timestamptz is null or happened_at < :until)
    limit :most) found
order by rank desc, id desc limit :amount;

-- name: model_vectors
select id, dimensions from ai_models where name = :name and task in ('text', 'look');

-- name: few_vectors
-- How many there are to compare with, up to a bound. Entries are of no library.
select count(*) from (select from search_vectors where model_id = :model_id
    and (library = any (:libraries::int[]) or :entries and library is null) limit :most) v;

-- name: compare_all
-- Few enough to look at each.
select asset_id, scene_id, frame_id, entry_id, 1 - (v <=> :v::text::halfvec) as similarity from search_vectors s
where model_id = :model_id and (library = any (:libraries::int[]) or :entries and library is null)
    and (not :narrow or (select true from assets a where a.id = s.asset_id
        and (:types::text[] is null or a.type = any (:types)) and (:tagger::int is null or a.tags_model_id = :tagger)
        and (:local_since::timestamp is null or a.shown_at >= :local_since) and (:local_until::timestamp is null or a.shown_at < :local_until))
        or (select true from search_entries e where e.id = s.entry_id
        and (:sources::text[] is null or e.source = any (:sources))
        and (:types::text[] is null or e.facts ->> 'type' = any (:types)) and :tagger::int is null
        and (:since::timestamptz is null or e.happened_at >= :since)
        and (:until::timestamptz is null or e.happened_at < :until)))
order by v <=> :v::text::halfvec limit :amount;

-- name: compare_nearest
-- The nearest by the signs of their numbers, which the index of the model holds, then by the vectors themselves.
-- 1024 stands for the model's dimensions. The subqueries are no joins, so that the index is read in its order.
select asset_id, scene_id, frame_id, entry_id, 1 - (v <=> :v::text::halfvec) as similarity from (
    select asset_id, scene_id, frame_id, entry_id, v from search_vectors s
    where model_id = :model_id and (library = any (:libraries::int[]) or :entries and library is null)
        and (not :narrow or (select true from assets a where a.id = s.asset_id
            and (:types::text[] is null or a.type = any (:types)) and (:tagger::int is null or a.tags_model_id = :tagger)
            and (:local_since::timestamp is null or a.shown_at >= :local_since)
            and (:local_until::timestamp is null or a.shown_at < :local_until))
            or (select true from search_entries e where e.id = s.entry_id
            and (:sources::text[] is null or e.source = any (:sources))
            and (:types::text[] is null or e.facts ->> 'type' = any (:types)) and :tagger::int is null
            and (:since::timestamptz is null or e.happened_at >= :since)
            and (:until::timestamptz is null or e.happened_at < :until)))
    order by binary_quantize(v)::bit(1024) <~> binary_quantize(:v::text::halfvec)::bit(1024) limit :amount) near
order by v <=> :v::text::halfvec;

-- name: vectors_of
-- Of one thing that can be seen, by every model that looked at it; of a video what its moments have in common.
select m.name, m.task, m.dimensions, m.id as model_id, avg(s.v)::text as v
from search_vectors s join ai_models m on m.id = s.model_id
where case :of when 'asset' then s.asset_id = :id when 'scene' then s.scene_id = :id when 'frame' then s.frame_id = :id
    else s.entry_id = :id end and (s.library is null or s.library = any (:libraries::int[]))
group by m.id order by m.id;

-- name: newest_assets
-- A few of each library, type and status, each by the index, then the newest of them.
select a.id, a.shown_at from unnest(:libraries::int[]) l (number), unnest(:types::text[]) t (type), unnest(:statuses::text[]) s (status),
    lateral (select id, shown_at from assets where library = l.number and type = t.type and status = s.status
        and vanished_at is null and (:local_since::timestamp is null or shown_at >= :local_since)
        and (:local_until::timestamp is null or shown_at < :local_until) and (:tagger::int is null or tags_model_id = :tagger)
        order by shown_at desc, id desc limit :amount) a
order by a.shown_at desc, a.id desc limit :amount;

-- name: newest_entries
select id, source, subject, happened_at from search_entries
where part = 0 and (:sources::text[] is null or source = any (:sources))
    and (:types::text[] is null or facts ->> 'type' = any (:types))
    and (:since::timestamptz is null or happened_at >= :since) and (:until::timestamptz is null or happened_at < :until)
order by happened_at desc, id desc limit :amount;

-- name: visible_assets
-- The last word on what is shown, whatever found it.
select id, shown_at from assets where id = any (:ids::bigint[]) and vanished_at is null and library = any (:libraries::int[])
    and (:types::text[] is null or type = any (:types)) and (:tagger::int is null or tags_model_id = :tagger)
    and (:local_since::timestamp is null or shown_at >= :local_since) and (:local_until::timestamp is null or shown_at < :local_until);

-- name: visible_entries
select id, source, subject, happened_at from search_entries where id = any (:ids::bigint[])
    and (:sources::text[] is null or source = any (:sources))
    and (:types::text[] is null or facts ->> 'type' = any (:types))
    and (:since::timestamptz is null or happened_at >= :since) and (:until::timestamptz is null or happened_at < :until);

-- name: show_assets
-- For one page: with marks around what was searched for, which nobody's text can contain.
select a.id, l.slug, a.rel_path, a.type, a.shown_at, a.width, a.height, a.duration_seconds, a.output, a.tags,
    headline(concat_ws(' · ', nullif(a.description, ''), tag_words(a.tags)), :query::text::tsquery) as snippet
from assets a join libraries l on l.number = a.library where a.id = any (:ids::bigint[]);

-- name: show_scenes
select id, start_ts as at_seconds, end_ts as end_seconds, rep_frame_path as path,
    headline(concat_ws(' · ', nullif(description, ''), tag_words(tags), nullif(metadata ->> 'text', '')), :query::text::tsquery)
        as snippet
from video_scenes where id = any (:ids::bigint[]);

-- name: show_frames
select id, timestamp_ms / 1000.0::float8 as at_seconds, frame_path as path,
    headline(concat_ws(' · ', nullif(description, ''), tag_words(tags)), :query::text::tsquery) as snippet
from video_frames where id = any (:ids::bigint[]);

-- name: show_entries
-- `found_at`: where in the text the first word of the search is, from 0; -1 if none is. As in headline(), for ts_headline
-- takes what is in angle brackets for a tag.
select id, source, subject, title, starts_at, happened_at, url, facts,
    headline(case when body = '' then title else body end, :query::text::tsquery) as snippet,
    strpos(ts_headline('english', translate(body, E'<\x02', E'\x01'), :query::text::tsquery,
        E'HighlightAll=true, StartSel=\x02, StopSel=\x03'), E'\x02') - 1 as found_at
from search_entries where id = any (:ids::bigint[]);

-- name: put_entry!
-- What has not changed keeps its vector.
insert into search_entries as e (source, subject, part, title, body, starts_at, happened_at, url, facts, search_vector)
values (:source, :subject, :part, :title, :body, :starts_at, coalesce(:happened_at, now()), :url, :facts::jsonb,
    findable(:title, null, :title, :body || ' ' || :words))
on conflict (source, subject, part) do update set title = excluded.title, body = excluded.body,
    starts_at = excluded.starts_at, happened_at = coalesce(:happened_at, e.happened_at), url = excluded.url,
    facts = excluded.facts, search_vector = excluded.search_vector,
    embedded_by = case when (e.title, e.body) = (excluded.title, excluded.body) then e.embedded_by end,
    embed_job = case when (e.title, e.body) = (excluded.title, excluded.body) then e.embed_job end
where (e.title, e.body, e.starts_at, e.url, e.facts, e.search_vector, e.happened_at) is distinct from (excluded.title,
    excluded.body, excluded.starts_at, excluded.url, excluded.facts, excluded.search_vector,
    coalesce(:happened_at, e.happened_at));

-- name: titles_of
select subject, title from search_entries where source = :source and subject = any (:subjects::text[]) and part = 0;

-- name: facts_of
select title, url, facts from search_entries where source = :source and subject = :subject and part = 0;

-- name: list_subjects
select subject from search_entries where source = :source and subject > :after and part = 0 order by subject limit :amount;

-- name: drop_entries!
delete from search_entries where source = :source and subject = :subject and part >= :from_part;

-- name: model_dimensions
select dimensions from ai_models where id = :id;

-- name: set_dimensions!
update ai_models set dimensions = :dimensions where id = :id and dimensions is null;

-- name: models_without_index
-- Those that make vectors, and whose index is not there or was never finished. None without pgvector.
select m.id, m.dimensions from ai_models m
where exists (select from pg_attribute where attrelid = 'search_vectors'::regclass and attname = 'v' and atttypid = to_regtype('halfvec'))
    and m.task in ('text', 'look') and m.dimensions is not null and not exists (
    select from pg_class c join pg_index i on i.indexrelid = c.oid
    where c.relname = 'search_vectors_model_' || m.id and c.relnamespace = current_schema()::regnamespace
        and i.indisvalid)
    and (exists (select from search_vectors v where v.model_id = m.id) or not exists (select from system_metadata s
        where s.key = 'embedders' and m.id not in ((s.value ->> 'text')::int, (s.value ->> 'look')::int)))
order by m.id;

-- name: lock_indexes
-- One at a time makes indexes; held by the session, since making one is no transaction.
select pg_try_advisory_lock(:number);

-- name: unlock_indexes
select pg_advisory_unlock(:number);

-- name: drop_index!
drop index concurrently if exists search_vectors_model_0;

-- name: make_index!
-- 0 stands for the model, 1024 for its dimensions: neither can be a parameter.
create index concurrently if not exists search_vectors_model_0 on search_vectors
    using hnsw ((binary_quantize(v)::bit(1024)) bit_hamming_ops) where model_id = 0;

-- name: take_unembedded
-- Two that feed at once take different ones.
select id, title, body from search_entries where embedded_by is null and embed_job is null
order by id limit :amount for update skip locked;

-- name: note_embed_job!
update search_entries set embed_job = :job where id = any (:ids::bigint[]);

-- name: lock_embedded
-- Those that still wait for this job: a text that changed meanwhile waits for another one.
select id from search_entries where id = any (:ids::bigint[]) and embed_job = :job and embedded_by is null for update;

-- name: note_embedded!
update search_entries set embedded_by = :model_id, embed_job = null where id = any (:ids::bigint[]);

-- name: open_embed_jobs
-- Asked every few seconds: by the index of subjects, whatever else waits.
select count(*) from jobs where subject_id = 'search' and kind = 'search.embed';

-- name: forget_embed_jobs
-- Jobs that are neither waiting, running nor dead: their entries wait again.
update search_entries e set embed_job = null
where e.embedded_by is null and e.embed_job is not null
    and not exists (select from jobs j where j.id = e.embed_job)
    and not exists (select from dead_jobs d where d.id = e.embed_job)
returning e.id;

-- name: embed_again
-- Another model embeds now: a batch of what others did waits for it; their vectors go when the new ones are there. Two
-- ranges of an index instead of "is not".
update search_entries set embedded_by = null, embed_job = null
where id in (select id from search_entries where embedded_by < :model_id or embedded_by > :model_id limit :amount
    for update skip locked)
returning id;

-- name: outdated_embed_jobs
-- Jobs that wait for a model that nobody uses any more.
select id from jobs where subject_id = 'search' and kind = 'search.embed' and state in ('queued', 'scheduled', 'held')
    and payload ->> 'model' <> :model;

-- name: wait_again!
-- Their entries wait for another job; so do those of dead ones that asked for another model.
update search_entries set embed_job = null where embedded_by is null and embed_job is not null
    and (embed_job = any (:jobs::bigint[]) or embed_job in (
        select id from dead_jobs where kind = 'search.embed' and payload ->> 'model' <> :model));

-- name: drop_other_vectors!
delete from search_vectors where entry_id = any (:ids::bigint[]) and model_id <> :model_id;

-- name: drop_entries_under!
-- In the order of their bytes, "0" comes right after "/".
delete from search_entries where source = :source and subject >= :first and subject < :past;
