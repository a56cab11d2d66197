-- Proposals. What a person decided is never written but by the person.

-- name: drop_pending!
-- Not what a person entered, even if it was taken back.
delete from proposals where file_id = any (:files::bigint[]) and state = 'pending' and origin <> :person;

-- name: put_proposals!
-- For each of these files all of these fields, but for values that a person has accepted, edited or rejected.
insert into proposals (file_id, field, value, raw, unit, confidence, page, box, quote, origin)
select f.id, p.name, p.value, p.raw, p.unit, p.confidence, p.page, p.box, p.quote, :origin
from project_files f
cross join rows from (jsonb_to_recordset(:fields::jsonb) as (name text, value text, raw text, unit text, confidence real,
    page integer, box real[], quote text)) with ordinality as p (name, value, raw, unit, confidence, page, box, quote, place)
where f.id = any (:files::bigint[]) and not exists (
    select from proposals d where d.file_id = f.id and d.field = p.name and (d.state <> 'pending' or d.origin = :person)
        and p.value in (d.value, d.edited_value))
order by f.id, p.place;

-- name: count_proposals
select file_id, state, count(*) as proposals from proposals where file_id = any (:files::bigint[]) group by 1, 2;

-- name: count_pending
select f.project_id, count(*) as proposals from proposals p join project_files f on f.id = p.file_id
where f.project_id = any (:projects::bigint[]) and p.state = 'pending' group by 1;

-- name: list_proposals
-- File by file, so that a page is found by the index of the project's files; a plan need not know whether one is meant.
select p.*, f.name as file, s.slug as project from project_files f join proposals p on p.file_id = f.id
join projects s on s.id = f.project_id
where f.project_id = :project and f.id >= greatest(:after_file::bigint, coalesce(:file::bigint, 0))
    and f.id <= coalesce(:file, 9223372036854775807) and (f.id > :after_file or p.id > :after)
    and (:state::text is null or p.state = :state) and (:field::text is null or p.field = :field)
order by f.id, p.id limit :amount;

-- name: proposals_of_file
-- In the order of the catalog, the likeliest first; fields that are not in it any more come last.
select p.*, f.name as file, s.slug as project from proposals p join project_files f on f.id = p.file_id
join projects s on s.id = f.project_id
left join project_fields c on c.project_id = f.project_id and c.name = p.field
where p.file_id = :file order by c.position, p.field, p.confidence desc, p.id;

-- name: show_proposal
select p.*, f.name as file, s.slug as project from proposals p join project_files f on f.id = p.file_id
join projects s on s.id = f.project_id where p.id = :id;

-- name: lock_proposal
-- With the type of its field; one that is not in the catalog any more is text.
select p.*, coalesce((select c.type from project_fields c join project_files f on f.project_id = c.project_id
    where f.id = p.file_id and c.name = p.field), 'text') as type
from proposals p where p.id = :id for update;

-- name: decide_proposal!
update proposals set state = :state, edited_value = :edited, decided_at = case when :state <> 'pending' then now() end
where id = :id;

-- name: field_of_file
select c.type, c.unit from project_files f join project_fields c on c.project_id = f.project_id
where f.id = :file and c.name = :field;

-- name: change_entered
-- A person has one value for each field of a file. Runs after lock_file, so that two who enter one do not add two.
update proposals set value = :value, raw = '', unit = :unit, state = 'accepted', edited_value = null, decided_at = now()
where file_id = :file and field = :field and origin = :origin returning id;

-- name: add_entered
insert into proposals (file_id, field, value, unit, confidence, origin, state, decided_at)
values (:file, :field, :value, :unit, 1, :origin, 'accepted', now()) returning id;

-- name: accept_best
-- Of each field that has no accepted value the likeliest that is likely enough; not one of another's at the same time.
with best as (
    select distinct on (p.file_id, p.field) p.id from proposals p join project_files f on f.id = p.file_id
    where f.project_id = :project and (:file::bigint is null or f.id = :file) and p.state = 'pending'
        and p.confidence >= :least and not exists (
            select from proposals d where d.file_id = p.file_id and d.field = p.field and d.state = 'accepted')
    order by p.file_id, p.field, p.confidence desc, p.id
)
update proposals p set state = 'accepted', decided_at = now() from best where p.id = best.id and p.state = 'pending'
returning p.file_id;

-- name: best_values
-- One for each field of each of these files: what a person wrote before what was only accepted, the last word first;
-- with `:pending`, also what waits, the likeliest first.
select distinct on (file_id, field) file_id, field, coalesce(edited_value, value) as value, unit, confidence, page, state,
    edited_value is not null or origin = :person as edited
from proposals
where file_id = any (:files::bigint[]) and (state = 'accepted' or (:pending and state = 'pending'))
order by file_id, field, (state = 'accepted') desc, (edited_value is not null or origin = :person) desc, decided_at desc nulls last,
    confidence desc, id;
