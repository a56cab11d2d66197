-- Tagging. Every description, tag and vector names its model. What a job brings is kept only while its asset waits for
-- that job, and only for moments of that asset. Words that were read are in facts (or metadata) under "text", so that
-- what an asset is found by can be made anew.

-- name: find_tagger
select id, name, engine from ai_models where id = :id and task = 'vision';

-- name: default_tagger
select (value #>> '{}')::int from system_metadata where key = 'default_tagger';

-- name: set_default_tagger
-- The id that was there before; null if it is the same, or the first.
with before as (select value from system_metadata where key = 'default_tagger' for update), after as (
    insert into system_metadata (key, value) values ('default_tagger', to_jsonb(:id::int))
    on conflict (key) do update set value = excluded.value)
select (value #>> '{}')::int from before where value <> to_jsonb(:id::int);

-- name: reader
-- Who reads text in pictures; 0 and null if nobody does.
select (s.value ->> 'id')::int as id, m.name from system_metadata s
left join ai_models m on m.id = (s.value ->> 'id')::int where s.key = 'reader';

-- name: set_reader
-- What was there before; null if it is the same, or the first. What was tagged before readers were noted is taken as read, or
-- not read, by the first that is noted.
with before as (select value from system_metadata where key = 'reader' for update), after as (
    insert into system_metadata (key, value) values ('reader', jsonb_build_object('id', :id::int, 'first', :id::int))
    on conflict (key) do update set value = system_metadata.value || jsonb_build_object('id', :id::int))
select (value ->> 'id')::int from before where (value ->> 'id')::int <> :id;

-- name: moments_left
-- Scenes and frames that one of these models has not seen, in the order of time, so many for each video. What the tagger has
-- said of them comes with them.
select asset_id, "of", id, path, tags_model_id, text_model_id, look_model_id, description, tags, words,
    unread(reader_model_id) as unread from (
    select m.*, row_number() over (partition by asset_id order by at) as place from (
        select asset_id, 'scene' as "of", id, rep_frame_path as path, start_ts as at, tags_model_id, text_model_id,
            look_model_id, reader_model_id, description, tags, metadata ->> 'text' as words from video_scenes
        where asset_id = any (:ids::bigint[])
        union all
        select asset_id, 'frame', id, frame_path, timestamp_ms / 1000.0, tags_model_id, text_model_id, look_model_id,
            reader_model_id, description, tags, words from video_frames
        where asset_id = any (:ids::bigint[])) m
    where (tags_model_id, text_model_id, look_model_id) is distinct from (:tagger, :text, :look)
        or unread(reader_model_id)) ordered
where place <= :most order by asset_id, place;

-- name: seen_assets
-- Of these, those whose previews the tagger has seen, with what it said of them: only their vectors are missing.
select id, tags_model_id, text_model_id, look_model_id, description, tags, facts ->> 'text' as words,
    unread(reader_model_id) as unread from assets
where id = any (:ids::bigint[]) and tags_model_id = :tagger and look_model_id is not null;

-- name: lock_tagged
-- With the models that its library wants by now.
select a.id, a.library, a.type, a.job_id, coalesce(l.target_tagger_id,
    (select (value #>> '{}')::int from system_metadata where key = 'default_tagger')) as wanted,
    (select (value ->> 'text')::int from system_metadata where key = 'embedders') as wanted_text,
    (select (value ->> 'look')::int from system_metadata where key = 'embedders') as wanted_look
from assets a join libraries l on l.number = a.library where a.id = :id for update of a;

-- name: tag_asset
update assets set description = :description, tags = :tags::jsonb, tags_model_id = :tagger, text_model_id = :text,
    look_model_id = :look, reader_model_id = :reader,
    facts = coalesce(facts, '{}') - '{text,models,tag_error}'::text[] || :noted::jsonb,
    search_vector = findable(:description, :tags::jsonb, rel_path, :noted::jsonb ->> 'text')
where id = :id and id = :asset_id returning id;

-- name: tag_scene
update video_scenes set description = :description, tags = :tags::jsonb, tags_model_id = :tagger, text_model_id = :text,
    look_model_id = :look, reader_model_id = :reader,
    metadata = coalesce(metadata, '{}') - '{text,models,tag_error}'::text[] || :noted::jsonb,
    search_vector = findable(:description, :tags::jsonb, null, :noted::jsonb ->> 'text')
where id = :id and asset_id = :asset_id returning id;

-- name: tag_frame
update video_frames set description = :description, tags = :tags::jsonb, tags_model_id = :tagger, text_model_id = :text,
    look_model_id = :look, reader_model_id = :reader, words = :noted::jsonb ->> 'text',
    search_vector = findable(:description, :tags::jsonb, null, :noted::jsonb ->> 'text')
where id = :id and asset_id = :asset_id returning id;

-- name: embed_asset
-- Only its vectors are new.
update assets set text_model_id = :text, look_model_id = :look where id = :id and id = :asset_id returning id;

-- name: embed_scene
update video_scenes set text_model_id = :text, look_model_id = :look where id = :id and asset_id = :asset_id returning id;

-- name: embed_frame
update video_frames set text_model_id = :text, look_model_id = :look where id = :id and asset_id = :asset_id returning id;

-- name: read_asset
-- Its text was read, by another reader or for the first time; and its vectors are new.
update assets set text_model_id = :text, look_model_id = :look, reader_model_id = :reader,
    facts = coalesce(facts, '{}') - 'text' || jsonb_strip_nulls(jsonb_build_object('text', :words::text)),
    search_vector = findable(description, tags, rel_path, :words)
where id = :id and id = :asset_id returning id;

-- name: read_scene
update video_scenes set text_model_id = :text, look_model_id = :look, reader_model_id = :reader,
    metadata = coalesce(metadata, '{}') - 'text' || jsonb_strip_nulls(jsonb_build_object('text', :words::text)),
    search_vector = findable(description, tags, null, :words)
where id = :id and asset_id = :asset_id returning id;

-- name: read_frame
update video_frames set text_model_id = :text, look_model_id = :look, reader_model_id = :reader, words = :words,
    search_vector = findable(description, tags, null, :words)
where id = :id and asset_id = :asset_id returning id;

-- name: sum_up_video!
-- A video all of whose moments were looked at is tagged with what is in them, each label with its best score.
with moments as materialized (
    select tags, tags_model_id, text_model_id, look_model_id from video_scenes where asset_id = :id
    union all select tags, tags_model_id, text_model_id, look_model_id from video_frames where asset_id = :id
), labels as (
    select tag ->> 'label' as label, max((tag ->> 'score')::float8) as score
    from moments, jsonb_array_elements(tags) tag group by 1 order by 2 desc nulls last, 1 limit 30
), summed as (
    select coalesce(jsonb_agg(jsonb_build_object('label', label, 'score', score) order by score desc nulls last, label),
        '[]') as tags from labels
)
update assets a set tags = s.tags, description = null, tags_model_id = :tagger, text_model_id = :text, look_model_id = :look,
    reader_model_id = :reader, search_vector = findable(null, s.tags, a.rel_path, null)
from summed s where a.id = :id and exists (select from moments)
    and not exists (select from moments
        where (tags_model_id, text_model_id, look_model_id) is distinct from (:tagger, :text, :look));

-- name: finish_tagging
-- Completed if all of it was seen by whom the library wants. Else it waits for another job; a job that brought nothing
-- counts as a failure.
update assets a set job_id = null,
    error_code = case when f.left_over and not :kept::bool and a.retry_count >= :most then 'tag_failed' end,
    error = case when f.left_over and not :kept::bool then 'the tagger said nothing that can be used' end,
    retry_count = case when f.left_over and not :kept::bool then a.retry_count + 1 else 0 end,
    status = case when f.left_over and not :kept::bool and a.retry_count >= :most then 'poisoned'
        when f.left_over or not :is_wanted::bool then 'proxied' else 'completed' end
from (select (b.tags_model_id, b.text_model_id, b.look_model_id) is distinct from (:tagger::int, :text::int, :look::int)
    or unread(b.reader_model_id)
    or exists (select from video_scenes where asset_id = :id and (unread(reader_model_id)
        or (tags_model_id, text_model_id, look_model_id) is distinct from (:tagger::int, :text::int, :look::int)))
    or exists (select from video_frames where asset_id = :id and (unread(reader_model_id)
        or (tags_model_id, text_model_id, look_model_id) is distinct from (:tagger::int, :text::int, :look::int)))
    as left_over from assets b where b.id = :id) f
where a.id = :id returning a.status;

-- name: set_target!
-- Another target: its assets are gone through from the first one on.
update libraries set target_tagger_id = :tagger, retag_after = 0 where number = :number;

-- name: retag_libraries!
-- Those without a target, or all.
update libraries set retag_after = 0 where :all or target_tagger_id is null;

-- name: retagging
select number from libraries where retag_after is not null and deleted_at is null order by number;

-- name: lock_retagging
-- Under lock: whoever sets another target meanwhile waits, and then begins from the first asset again.
select retag_after, coalesce(target_tagger_id,
    (select (value #>> '{}')::int from system_metadata where key = 'default_tagger')) as target,
    (select (value ->> 'text')::int from system_metadata where key = 'embedders') as text,
    (select (value ->> 'look')::int from system_metadata where key = 'embedders') as look
from libraries where number = :number and retag_after is not null and deleted_at is null for update;

-- name: retag_batch
-- The next so many assets by id, whosever they are: the primary key alone finds them. Those of the library that other
-- models have seen wait for a tag job; what they have stays until that is done. Returns how many, and null at the end.
with batch as materialized (
    select id from assets where id > :after order by id limit :amount
), moved as (
    update assets a set status = 'proxied', job_id = null, retry_count = 0, error = null, error_code = null
    from batch b where a.id = b.id and a.id > :after and a.id <= (select max(id) from batch)
        and a.library = :number and a.output is not null
        and (a.status = 'completed' or a.status in ('failed', 'poisoned') and a.error_code = 'tag_failed')
        and (a.tags_model_id is distinct from :target or a.text_model_id is distinct from coalesce(:text, a.text_model_id)
            or a.look_model_id is distinct from coalesce(:look, a.look_model_id) or unread(a.reader_model_id))
    returning a.id
), walked as (
    update libraries set retag_after = (select max(id) from batch) where number = :number
)
select (select count(*) from moved) as moved, (select max(id) from batch) as after;

-- name: find_twins
-- The same picture under another name, in any library that is not in the trash, seen by whom this library wants.
select n.id, t.id as twin from assets n join libraries l on l.number = n.library
cross join lateral (
    select t.id from assets t join libraries tl on tl.number = t.library and tl.deleted_at is null
    where t.proxy_digest = n.proxy_digest and t.id <> n.id and t.type = 'image' and t.status = 'completed'
        and t.tags_model_id = coalesce(l.target_tagger_id,
            (select (value #>> '{}')::int from system_metadata where key = 'default_tagger'))
        and not exists (select from system_metadata where key = 'embedders' and (t.text_model_id, t.look_model_id)
            is distinct from ((value ->> 'text')::int, (value ->> 'look')::int))
        and not unread(t.reader_model_id)
    limit 1) t
where n.id = any (:ids::bigint[]) and n.type = 'image' and n.status = 'proxied' and n.job_id is null;

-- name: take_over
-- All but the name is the twin's.
update assets a set status = 'completed', retry_count = 0, error = null, error_code = null, description = t.description,
    tags = t.tags, tags_model_id = t.tags_model_id, text_model_id = t.text_model_id, look_model_id = t.look_model_id,
    reader_model_id = t.reader_model_id, facts = coalesce(a.facts, '{}') - '{text,models,tag_error}'::text[] || jsonb_strip_nulls(
        jsonb_build_object('text', t.facts -> 'text', 'models', t.facts -> 'models')),
    search_vector = findable(t.description, t.tags, a.rel_path, t.facts ->> 'text')
from unnest(:ids::bigint[], :twins::bigint[]) as f (id, twin) join assets t on t.id = f.twin
where a.id = f.id and a.status = 'proxied' and a.job_id is null returning a.id, f.twin;

-- name: outdated_tag_jobs
-- Jobs that wait, and ask for models that their library does not want any more.
select a.id, a.job_id from jobs j join assets a on a.job_id = j.id join libraries l on l.number = a.library
where j.kind = 'library.tag' and j.state in ('queued', 'scheduled', 'held')
    and ((j.payload #>> '{tagger,id}')::int <> coalesce(l.target_tagger_id,
            (select (value #>> '{}')::int from system_metadata where key = 'default_tagger'))
        or exists (select from system_metadata where key = 'embedders' and ((value ->> 'text', value ->> 'look')
            <> (j.payload #>> '{text_model,id}', j.payload #>> '{look_model,id}')))
        or exists (select from system_metadata where key = 'reader' and value ->> 'id' <> '0'
            and value ->> 'id' is distinct from j.payload #>> '{reader,id}'))
limit :amount;
