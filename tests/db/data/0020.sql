-- What a file is, as a person said.
update project_files set category = 'Invoice', category_by = 'person' where name = 'new.pdf';
