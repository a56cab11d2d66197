-- Findings: labels with their values that fit no field. A person makes a field of one, or drops its label.

-- name: drop_findings!
delete from findings where file_id = any (:files::bigint[]);

-- name: put_findings!
-- For each of these files; not what its project has a field for by now, and not what was dropped there.
insert into findings (file_id, label, type, value, raw, unit, confidence, page, box, quote, origin)
select f.id, u.label, u.type, u.value, u.raw, u.unit, u.confidence, u.page, u.box, u.quote, :origin
from project_files f join projects p on p.id = f.project_id
cross join rows from (jsonb_to_recordset(:findings::jsonb) as (label text, type text, value text, raw text, unit text,
    confidence real, page integer, box real[], quote text))
    with ordinality as u (label, type, value, raw, unit, confidence, page, box, quote, place)
where f.id = any (:files::bigint[]) and lower(u.label) <> all (p.dropped_labels) and not exists (
    select from project_fields c where c.project_id = p.id and lower(c.label) = lower(u.label))
order by f.id, u.place;

-- name: findings_of_file
select id, label, type, value, raw, unit, confidence, page, box, quote from findings where file_id = :file order by id;

-- name: find_finding
select n.*, f.project_id, p.slug from findings n join project_files f on f.id = n.file_id
join projects p on p.id = f.project_id where n.id = :id;

-- name: take_findings
-- All of this label in a project: they become values of a field, or nothing.
delete from findings n using project_files f
where f.id = n.file_id and f.project_id = :project and lower(n.label) = lower(:label)
returning n.id, n.file_id, n.value, n.raw, n.unit, n.confidence, n.page, n.box, n.quote, n.origin;

-- name: drop_label!
update projects set dropped_labels = array_append(array_remove(dropped_labels, lower(:label)), lower(:label))
where id = :project;

-- name: add_field!
insert into project_fields (project_id, name, type, label, unit, position)
select :project, :name, :type, :label, :unit, 1 + coalesce(max(position), 0) from project_fields where project_id = :project;

-- name: add_found
-- Unless the value is there already, whatever was decided about it.
insert into proposals (file_id, field, value, raw, unit, confidence, page, box, quote, origin)
select :file, :field, :value, :raw, :unit, :confidence, :page, :box, :quote, :origin
where not exists (select from proposals d where d.file_id = :file and d.field = :field
    and :value in (d.value, d.edited_value))
returning id;
