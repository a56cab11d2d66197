-- A project with a field, a file that was analysed and a proposal that waits, a twin of it, a file that waits.
insert into projects (slug, name) values ('old-project', 'Old project');
insert into project_fields (project_id, name, type, label, position)
select id, 'total', 'amount', 'Total', 1 from projects where slug = 'old-project';
insert into analyses (sha256, catalog, extractor, mime_type, bytes, state, attempts, processed_at, text, summary, duration_ms)
values (decode(repeat('0a', 32), 'hex'), decode(repeat('0c', 32), 'hex'), 'rules@1', 'application/pdf', 10, 'completed', 1, now(),
    'Total 12.00', 'an invoice', 7);
insert into analyses (sha256, catalog, extractor, mime_type, bytes)
values (decode(repeat('0b', 32), 'hex'), decode(repeat('0c', 32), 'hex'), 'rules@1', 'application/pdf', 10);
insert into project_files (project_id, analysis_id, name, source)
select p.id, a.id, f.name, f.source
from projects p, (values ('invoice.pdf', 'upload', '0a'), ('again.pdf', 'watch', '0a'), ('new.pdf', 'upload', '0b')) f (name, source, hash)
join analyses a on a.sha256 = decode(repeat(f.hash, 32), 'hex')
where p.slug = 'old-project' order by f.name desc;
insert into proposals (file_id, field, value, raw, confidence, page, quote, origin)
select id, 'total', '12.00', '12.00', 0.9, 1, 'Total 12.00', 'rules' from project_files where name = 'invoice.pdf';
