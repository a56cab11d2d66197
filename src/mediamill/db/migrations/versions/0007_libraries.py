"""Read-only libraries: folders, assets, scenes, frames; models by name; what can be found, by words and by vectors."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SCRIPT = """
create function tag_words(tags jsonb) returns text language sql immutable parallel safe
return (select string_agg(tag ->> 'label', ', ') from jsonb_array_elements(tags) tag);

-- A text as it is searched in and for: without accents, ligatures and other forms of the same letter. Chinese and
-- Japanese know no spaces: each character is a word, and a search for several is one for a phrase (search/words.py).
create function folded(said text) returns text language sql immutable parallel safe
return case when octet_length(said) = length(said) then said else regexp_replace(
    replace(replace(replace(replace(replace(translate(
        normalize(regexp_replace(normalize(said, NFKD), '[\\u0300-\\u036f]', '', 'g'), NFKC),
        'øØłŁđĐħĦı', 'oOlLdDhHi'), 'ß', 'ss'), 'æ', 'ae'), 'Æ', 'AE'), 'œ', 'oe'), 'Œ', 'OE'),
    '([\\u3041-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff])', ' \\1 ', 'g') end;

-- What a thing is found by: what is said of it (A), its tags (B), its name in parts (C), words in it (D). English, as a
-- search is read; names also as they are, since a name may consist of words that English leaves out.
create function findable(said text, tags jsonb, name text, words text) returns tsvector
language sql immutable parallel safe
return setweight(to_tsvector('english', coalesce(folded(said), '')), 'A')
    || setweight(to_tsvector('english', coalesce(folded(tag_words(tags)), '')), 'B')
    || setweight(to_tsvector('english', regexp_replace(coalesce(folded(name), ''), '[^[:alnum:]]+', ' ', 'g')), 'C')
    || setweight(to_tsvector('simple', regexp_replace(coalesce(folded(name), ''), '[^[:alnum:]]+', ' ', 'g')), 'C')
    || setweight(to_tsvector('english', coalesce(folded(words), '')), 'D');

-- What the indexes of words know besides words (search/words.py): the block of 16,384 ids, library, model, type or
-- source.
create function search_keys(id bigint, library integer, sort text, model integer) returns integer[]
language sql immutable parallel safe
return array_remove(array[
    (id >> 14 << 3)::integer,
    (library << 3) + 2,
    (model << 3) + 3,
    (case sort when 'image' then 1 when 'video' then 2 when 'message' then 3 when 'file' then 4 end << 3) + 4], null);

-- What is shown of a text: marks (control characters, taken out of the text before) around the words of a search, and
-- an ellipsis where something is left out. Without such a word it is the beginning. ts_headline leaves out what looks
-- like a tag, so < is hidden from it.
create function headline(said text, query tsquery) returns text language sql immutable parallel safe
return (
    select translate(case
        when marked is null or strpos(marked, E'\\x02') = 0 then
            case when length(plain) <= 300 then plain
            else regexp_replace(left(plain, 300), '\\s*\\S{0,40}$', '') || ' …' end
        when is_short then marked
        else case when starts_with(ltrim(plain, marks), ltrim(split_part(bare, E'\\x04', 1), marks)) then ''
            else '… ' end
            || replace(marked, E'\\x04', ' … ')
            || case when right(rtrim(plain, marks), length(rest)) = rest then '' else ' …' end
    end, E'\\x01', '<')
    from (select left(translate(said, E'<\\x01\\x02\\x03\\x04', E'\\x01'), 20000) as plain,
        E' \\n\\r\\t\\x01>.,;:!?"''()[]·…-' as marks) a,
    lateral (select length(plain) <= 140 as is_short) b,
    lateral (select case when query is not null then ts_headline('english', plain, query,
        case when is_short then E'HighlightAll=true, StartSel=\\x02, StopSel=\\x03'
        else E'MaxFragments=2, MaxWords=25, MinWords=8, StartSel=\\x02, StopSel=\\x03, FragmentDelimiter=\\x04' end) end
        as marked offset 0) c, -- once, however often it is read
    lateral (select translate(marked, E'\\x02\\x03', '') as bare) d,
    lateral (select rtrim(split_part(bare, E'\\x04', -1), marks) as rest) e
);

-- Who said it: every tag, description and vector names one of these.
create table ai_models (
    id integer generated always as identity primary key,
    name text not null unique,
    task text not null check (task in ('vision', 'text', 'look')),
    engine text not null,
    dimensions integer check (dimensions between 1 and 4000),
    created_at timestamptz not null default now()
);

create table system_metadata (
    key text primary key,
    value jsonb not null
);

-- `number` stands for the library in tables of millions of rows. `scan_at`: the folder that a scan has come to, in the
-- order of paths; a scan that was cut off goes on from there. `scan_token`: every scan has its own, and only the latest
-- may write. `erasing_at`: it is being erased, and cannot be restored any more. `warning`: why its jobs are put off,
-- said again every minute while they are.
create table libraries (
    slug text primary key,
    number integer generated always as identity unique,
    name text not null,
    absolute_path text not null,
    deleted_at timestamptz,
    erasing_at timestamptz,
    is_active boolean not null default true,
    scan_status text not null default 'idle' check (scan_status in ('idle', 'scan_req', 'scanning')),
    scan_token bigint not null default 0,
    scan_at text collate "C",
    scan_counts jsonb not null default '{}',
    scan_started_at timestamptz,
    scan_beat_at timestamptz,
    scanned_at timestamptz,
    scan_error text,
    rescan_seconds integer check (rescan_seconds > 0),
    target_tagger_id integer references ai_models,
    sampling_limit integer not null default 100 check (sampling_limit between 1 and 10000),
    sampling_policy jsonb not null default '{"mode": "scenes"}',
    ignore_previews boolean not null default false,
    retag_after bigint,
    warning text,
    warned_at timestamptz,
    created_at timestamptz not null default now()
);

-- Of libraries with many assets: how many there are of what, as of a while ago (libraries/counts.py).
create table library_counts (
    library integer primary key references libraries (number) on delete cascade,
    counted_at timestamptz not null default now(),
    assets bigint not null,
    was_moving boolean not null
);
create table asset_counts (
    library integer not null references library_counts on delete cascade,
    type text not null,
    status text not null,
    month text, -- of what vanished: none
    assets bigint not null,
    bytes bigint not null
);
create index asset_counts_library on asset_counts (library);

-- A folder's digest is that of its files' names, sizes and times: a scan that finds it again looks no further.
create table library_folders (
    id bigint generated always as identity primary key,
    library integer not null,
    parent bigint,
    rel_path text collate "C" not null,
    digest bytea,
    is_mount boolean not null default false,
    unique (library, rel_path)
);
-- The order of a walk: everything inside a folder follows it without a gap.
create unique index library_folders_order on library_folders (library, (rel_path || '/'));

-- Written by the million: no foreign keys, few indexes. Paths ascend as a scan goes, so all but the one by time grow at
-- their end.
-- `job_id`: the job at hand; without one, an asset that is pending or proxied waits to be fed to the queue. The models:
-- who tagged it, and who made vectors of what was said and of what is seen; `look_model_id` is null as long as nobody
-- has looked at the previews that are there now.
create table assets (
    id bigint generated always as identity primary key,
    library integer not null,
    folder bigint not null,
    rel_path text collate "C" not null,
    type text not null check (type in ('image', 'video')),
    mtime_ns bigint not null,
    size bigint not null,
    inode bigint not null,
    shown_at timestamptz not null,
    status text not null default 'pending'
        check (status in ('pending', 'proxied', 'extracting', 'analyzing', 'completed', 'failed', 'poisoned')),
    retry_count integer not null default 0,
    job_id bigint,
    tags_model_id integer,
    text_model_id integer,
    look_model_id integer,
    width integer,
    height integer,
    duration_seconds double precision,
    output text,
    error text,
    error_code text,
    video_preview_path text,
    segmentation_version text,
    proxy_digest bytea,
    description text,
    tags jsonb,
    facts jsonb,
    search_vector tsvector,
    vanished_at timestamptz
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create unique index assets_path on assets (library, rel_path);
create index assets_folder on assets (folder);
-- Listed by time within type and status, so that a page costs the same whatever is asked for; several are merged. What
-- waits to be fed is one of these stretches.
create index assets_newest on assets (library, type, status, shown_at desc, id desc) where vanished_at is null;
create index assets_gone on assets (library, shown_at desc, id desc) where vanished_at is not null;
create index assets_at_hand on assets (job_id) where job_id is not null;
create index assets_vanished on assets (vanished_at) where vanished_at is not null;
create index assets_segmented on assets (segmentation_version) where segmentation_version is not null;
create index assets_twins on assets (proxy_digest) where proxy_digest is not null;
-- What was written last waits in a list that every search reads: a short one.
create index assets_words on assets using gin (search_vector, search_keys(id, library, type, tags_model_id))
    with (gin_pending_list_limit = 256) where search_vector is not null;

create table video_scenes (
    id bigint generated always as identity primary key,
    asset_id bigint not null references assets on delete cascade,
    library integer not null,
    number integer not null,
    start_ts double precision not null,
    end_ts double precision not null,
    sharpness_score real not null,
    keep_reason text not null check (keep_reason in ('phash', 'temporal', 'forced')),
    tags_model_id integer,
    text_model_id integer,
    look_model_id integer,
    rep_frame_path text not null,
    description text,
    tags jsonb,
    metadata jsonb,
    search_vector tsvector
);
create index video_scenes_end on video_scenes (asset_id, end_ts);
create index video_scenes_words on video_scenes
    using gin (search_vector, search_keys(id, library, 'video', tags_model_id))
    with (gin_pending_list_limit = 256) where search_vector is not null;

-- The scene that is open while a video is indexed; moved in the transaction that closes the one before.
create table video_active_state (
    asset_id bigint primary key references assets on delete cascade,
    anchor_phash text not null,
    scene_start_ts double precision not null,
    current_best_pts double precision,
    current_best_sharpness real,
    state jsonb not null
);

create table video_frames (
    id bigint generated always as identity primary key,
    asset_id bigint not null references assets on delete cascade,
    library integer not null,
    timestamp_ms integer not null,
    is_keyframe boolean not null,
    tags_model_id integer,
    text_model_id integer,
    look_model_id integer,
    frame_path text not null,
    description text,
    words text,
    tags jsonb,
    search_vector tsvector,
    unique (asset_id, timestamp_ms)
);
create index video_frames_words on video_frames
    using gin (search_vector, search_keys(id, library, 'video', tags_model_id))
    with (gin_pending_list_limit = 256) where search_vector is not null;

-- What can be found besides libraries: videos with what is said in them, media of chats, files of projects.
create table search_entries (
    id bigint generated always as identity primary key,
    source text not null check (source in ('video', 'message', 'file')),
    subject text collate "C" not null,
    part integer not null default 0,
    title text not null,
    body text not null default '',
    starts_at double precision,
    happened_at timestamptz not null default now(),
    url text,
    facts jsonb not null default '{}',
    embedded_by integer,
    embed_job bigint,
    search_vector tsvector not null,
    unique (source, subject, part)
);
create index search_entries_unembedded on search_entries (embed_job, id) where embedded_by is null;
create index search_entries_embedded on search_entries (embedded_by) where embedded_by is not null;
create index search_entries_newest on search_entries (happened_at desc, id desc) where part = 0;
create index search_entries_words on search_entries using gin (search_vector, search_keys(id, null, source, null))
    with (gin_pending_list_limit = 256);

-- One row for each thing and model; each model has a partial index of its own, since models differ in dimensions. The
-- vectors become pgvector's halfvec as soon as the database has that (db/pgvector.py).
create table search_vectors (
    id bigint generated always as identity primary key,
    model_id integer not null references ai_models,
    library integer,
    asset_id bigint references assets on delete cascade,
    scene_id bigint references video_scenes on delete cascade,
    frame_id bigint references video_frames on delete cascade,
    entry_id bigint references search_entries on delete cascade,
    v real[] not null,
    check (num_nonnulls(scene_id, frame_id) <= 1 and num_nonnulls(asset_id, entry_id) = 1)
);
create index search_vectors_library on search_vectors (model_id, library);
create index search_vectors_asset on search_vectors (asset_id) where asset_id is not null;
create index search_vectors_scene on search_vectors (scene_id) where scene_id is not null;
create index search_vectors_frame on search_vectors (frame_id) where frame_id is not null;
create index search_vectors_entry on search_vectors (entry_id) where entry_id is not null;

-- Media of chats are gone through for the search.
create index queues_media on queues (bot_id, provider_name, correspondent_id, id) where media is not null;

insert into pools values
    ('library_scans', '{library.scan}', null, 2, 86400, 3, 300, 900, true, 10, 300, 1073741824, false, 604800),
    ('library_images', '{library.image}', 'library-image', 2, 120, 6, 300, 900, true, 5, 300, 2147483648, false,
        604800),
    ('library_videos', '{library.video}', 'library-video', 1, 21600, 6, 900, 3600, true, 10, 600, 3221225472, false,
        604800),
    ('library_tags', '{library.tag}', 'library-tag', 1, 3600, 6, 600, 1800, true, 10, 600, 3221225472, true, 604800),
    ('embed', '{search.embed}', 'embed', 1, 300, 6, 300, 900, true, 5, 300, 2147483648, false, 604800)
on conflict (name) do nothing
"""
TABLES = (
    "search_vectors",
    "search_entries",
    "video_frames",
    "video_active_state",
    "video_scenes",
    "assets",
    "library_folders",
    "asset_counts",
    "library_counts",
    "libraries",
    "system_metadata",
    "ai_models",
)
POOLS = "('library_scans', 'library_images', 'library_videos', 'library_tags', 'embed')"


def upgrade() -> None:
    for statement in SCRIPT.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    catch_all = "(select name from pools where matches = '{}')"
    op.execute(f"update jobs set pool = {catch_all} where pool in {POOLS}")  # noqa: S608
    op.execute(f"delete from pools where name in {POOLS}")  # noqa: S608
    op.execute("drop index queues_media")
    for table in TABLES:
        op.execute(f"drop table {table}")
    for function in ("findable", "folded", "tag_words", "search_keys", "headline"):
        op.execute(f"drop function {function}")
