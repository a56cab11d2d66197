-- Projects, their files, and the analyses that files share. The state of an analysis is written only by the hooks of its
-- job, in the job's own transaction. Locks are taken in this order, by everybody: content, project, job, analyses by id,
-- files. So adding a twin, completing its analysis and deleting either come one after the other, and nobody deadlocks.

-- name: add_project
insert into projects (slug, name, description, watch_path) values (:slug, :name, :description, :watch_path)
on conflict (slug) do nothing returning id;

-- name: edit_project!
-- Another folder, or none: what was said of the old one is over, and what was seen in it is no reason to skip anything.
update projects set name = coalesce(:name, name), description = coalesce(:description, description),
    watch_path = case when :watch_given then :watch_path else watch_path end,
    watch_error = case when :watch_given then null else watch_error end,
    watched_at = case when :watch_given then null else watched_at end, updated_at = now()
where id = :id;

-- name: find_project
select * from projects where slug = :slug;

-- name: lock_project
select * from projects where slug = :slug for update;

-- name: share_project
-- It cannot be deleted while a file is added to it, but many can be added at once.
select * from projects where slug = :slug for key share;

-- name: list_projects
select * from projects where :slug::text is null or slug = :slug order by name, slug;

-- name: count_files
select f.project_id, a.state, count(*) as files from project_files f join analyses a on a.id = f.analysis_id
where f.project_id = any (:projects::bigint[]) group by 1, 2;

-- name: list_fields
select name, type, label, description, unit, categories from project_fields where project_id = :project order by position;

-- name: set_rules!
update projects set category_rules = :rules::jsonb, updated_at = now() where id = :id;

-- name: uncategorised_after
-- Of which no person said what they are.
select id, name from project_files where project_id = :project and id > :after
    and category_by is distinct from 'person' order by id limit :batch for update;

-- name: categorise!
update project_files f set category = c.category, category_by = case when c.category <> '' then 'rule' end
from unnest(:ids::bigint[], :categories::text[]) as c (id, category)
where f.id = c.id and f.category <> c.category;

-- name: set_category!
update project_files set category = :category, category_by = :by where id = :id;

-- name: drop_fields!
delete from project_fields where project_id = :project;

-- name: put_fields!
insert into project_fields (project_id, name, type, label, description, unit, categories, position)
select :project, f.name, f.type, f.label, f.description, f.unit,
    array(select jsonb_array_elements_text(f.categories::jsonb)), f.position
from unnest(:names::text[], :types::text[], :labels::text[], :descriptions::text[], :units::text[], :categories::text[])
    with ordinality as f (name, type, label, description, unit, categories, position);

-- name: lock_content
-- All who add this content, analyse it anew or sweep its bytes away come one after the other.
select pg_advisory_xact_lock(hashtext('intake content'), hashtext(encode(:sha256::bytea, 'hex')));

-- name: pick_analysis
-- The newest that did not fail, else the newest. Locked: it cannot be completed or deleted while a file is attached.
select * from analyses where sha256 = :sha256 and catalog = :catalog and extractor = :extractor
order by (state = 'failed'), generation desc limit 1 for update;

-- name: add_analysis
insert into analyses (sha256, catalog, extractor, generation, mime_type, bytes)
select :sha256, :catalog, :extractor, 1 + coalesce(max(generation), 0), :mime_type, :bytes from analyses
where sha256 = :sha256 and catalog = :catalog and extractor = :extractor
returning *;

-- name: note_job
update analyses set job_id = :job where id = :id returning *;

-- name: note_kept!
-- What the next job may go on from: the files lie beside its derivatives.
update analyses set kept = :kept::jsonb where id = :id;

-- name: kept_of_analysis
select output, kept from analyses where id = :id;

-- name: add_file
insert into project_files (project_id, analysis_id, name, source, category, category_by, twin_of)
values (:project, :analysis, :name, :source, :category, :category_by,
    (select t.id from project_files t where t.analysis_id = :analysis order by t.id limit 1))
returning id;

-- name: move_file!
update project_files set analysis_id = :analysis where id = :id;

-- name: tell_files!
insert into events (topic, subject, data)
select 'file.changed', f.id::text, jsonb_build_object('id', f.id, 'project', p.slug, 'state', a.state)
from project_files f join projects p on p.id = f.project_id join analyses a on a.id = f.analysis_id
where f.id = any (:ids::bigint[]) order by f.id;

-- name: tell_gone!
insert into events (topic, subject, data)
values ('file.changed', :id::bigint::text, jsonb_build_object('id', :id::bigint, 'project', :project::text, 'state', 'gone'));

-- name: lock_analysis
-- With the job that serves it: a job of an earlier life changes nothing.
select * from analyses where id = :id and job_id = :job for update;

-- name: lock_analyses_of_content
-- All that a file of this content may have, or come to have; in the order of ids.
select id from analyses where sha256 = :sha256 order by id for update;

-- name: lock_analyses
-- In the order of ids: no deadlock.
select id from analyses where id = any (:ids::bigint[]) order by id for update;

-- name: files_of_analysis
select f.id, f.project_id, f.name, p.slug from project_files f join projects p on p.id = f.project_id
where f.analysis_id = :analysis order by f.id;

-- name: names_of_analyses
-- Whom a job is about: the first file that has the analysis.
select distinct on (f.analysis_id) f.analysis_id, f.id, f.name, p.slug
from project_files f join projects p on p.id = f.project_id
where f.analysis_id = any (:analyses::bigint[]) order by f.analysis_id, f.id;

-- name: begin_analysis
update analyses set state = 'processing', attempts = :attempts, started_at = now(), error = null
where id = :id returning id;

-- name: complete_analysis
update analyses set state = 'completed', error = null, processed_at = now(), mime_type = coalesce(:mime_type, mime_type),
    text = :text, summary = :summary, result = :result::jsonb, page_texts = :page_texts::jsonb, output = :output,
    duration_ms = extract(epoch from now() - started_at) * 1000
where id = :id returning *;

-- name: fail_analysis
update analyses set state = 'failed', error = :error, processed_at = now(),
    duration_ms = extract(epoch from now() - started_at) * 1000
where id = :id returning *;

-- name: release_analysis
-- The time of the attempt that ended is for the log; the one to come has its own.
with was as (select id, extract(epoch from now() - started_at) * 1000 as took from analyses where id = :id)
update analyses a set state = 'queued', started_at = null, processed_at = null, error = :error,
    attempts = case when :fresh then 0 else attempts end
from was where a.id = was.id returning a.*, was.took::bigint as took_ms;

-- name: take_back
-- Dead jobs that may run again: their analyses failed with them, and files still wait for it.
select a.job_id from analyses a where a.id = any (:ids::bigint[]) and a.job_id = any (:jobs::bigint[])
    and a.state = 'failed' and exists (select from project_files f where f.analysis_id = a.id)
order by a.id for update;

-- name: drop_orphans
-- Those of these that no file has. Runs after lock_analyses, so that a file that was just attached is seen.
delete from analyses a where a.id = any (:ids::bigint[])
    and not exists (select from project_files f where f.analysis_id = a.id)
returning a.id, a.job_id;

-- name: orphans
-- What a transaction that was cut off, or one that came at the same time, left without files.
select a.id from analyses a where not exists (select from project_files f where f.analysis_id = a.id)
    and a.created_at < now() - make_interval(secs => :older_than_seconds) order by a.id limit :batch;

-- name: find_file
select f.*, a.sha256, a.mime_type, a.bytes, a.state, a.output, a.result, a.generation, a.catalog, a.extractor, a.job_id,
    p.slug, p.category_rules
from project_files f join analyses a on a.id = f.analysis_id join projects p on p.id = f.project_id where f.id = :id;

-- name: delete_file
delete from project_files where id = :id and analysis_id = :analysis returning id;

-- name: analyses_of_project
select distinct analysis_id as id from project_files where project_id = :project order by 1;

-- name: delete_project!
delete from projects where id = :id;

-- name: list_files
-- By id; the newest first.
select f.id, f.project_id, p.slug as project, f.name, f.category, f.category_by, f.source, f.created_at, f.analysis_id,
    a.state, a.attempts,
    a.started_at, a.processed_at, a.error, encode(a.sha256, 'hex') as sha256, a.bytes, a.mime_type, a.summary, a.job_id,
    a.duration_ms, a.catalog, a.extractor, a.generation, a.result, a.output,
    (select t.id from project_files t where t.id = f.twin_of) as twin_of
from project_files f join analyses a on a.id = f.analysis_id join projects p on p.id = f.project_id
where f.project_id = :project and f.id < :before and (:state::text is null or a.state = :state)
order by f.id desc limit :amount;

-- name: show_file
-- As in the list, with its text.
select f.id, f.project_id, p.slug as project, f.name, f.category, f.category_by, f.source, f.created_at, f.analysis_id,
    a.state, a.attempts,
    a.started_at, a.processed_at, a.error, encode(a.sha256, 'hex') as sha256, a.bytes, a.mime_type, a.summary, a.job_id,
    a.duration_ms, a.catalog, a.extractor, a.generation, a.result, a.output,
    (select t.id from project_files t where t.id = f.twin_of) as twin_of, a.text,
    (select j.priority from jobs j where j.id = a.job_id) as priority
from project_files f join analyses a on a.id = f.analysis_id join projects p on p.id = f.project_id where f.id = :id;

-- name: file_states
-- For whoever waits for many.
select f.id, a.state, a.error from project_files f join analyses a on a.id = f.analysis_id where f.id = any (:ids::bigint[]);

-- name: with_thumbnail
-- Of these files, those with a small picture.
select f.id from project_files f join analyses a on a.id = f.analysis_id
where f.id = any (:ids::bigint[]) and a.output is not null and (a.result ->> 'thumbnail')::boolean;

-- name: page_texts
select a.page_texts from project_files f join analyses a on a.id = f.analysis_id where f.id = :id;

-- name: files_after
-- For going through all of them.
select f.id from project_files f join analyses a on a.id = f.analysis_id
where f.project_id = :project and f.id > :after and (:state::text is null or a.state = :state) order by f.id limit :batch;

-- name: export_files
select f.id, f.name, a.state from project_files f join analyses a on a.id = f.analysis_id
where f.project_id = :project and f.id > :after order by f.id limit :batch;

-- name: known_contents
select distinct sha256 from analyses where sha256 = any (:contents::bytea[]);

-- name: unnamed_outputs
-- Of these folders, those that no analysis shows and whose job is at its end, in one look: a job that ends meanwhile is
-- seen as it was, or its folder is the one that is shown. A dead job may be tried again, in another folder.
select o.output from unnest(:outputs::text[], :jobs::bigint[]) as o (output, job)
where not exists (select from analyses a where a.output = o.output and a.id = any (:ids::bigint[]))
    and not exists (select from jobs j where j.id = o.job);

-- name: findable_file
select f.id, f.project_id, f.name, f.created_at, p.slug, p.name as project, a.summary, a.text, a.page_texts,
    a.result ->> 'kind' as kind
from project_files f join analyses a on a.id = f.analysis_id join projects p on p.id = f.project_id
where f.id = :id and a.state = 'completed';

-- name: findable_after
select f.id, f.project_id, f.name from project_files f join analyses a on a.id = f.analysis_id
where f.id > :after and a.state = 'completed' order by f.id limit :batch;

-- name: files_among
select id, project_id from project_files where id = any (:ids::bigint[]);

-- name: lock_file
select id from project_files where id = :id for update;
