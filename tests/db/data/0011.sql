-- Words that follow each other: they are in the new index.
update assets set description = 'a quiet okapi waits', search_vector = findable('a quiet okapi waits', '[]', rel_path, null)
where rel_path = 'new.jpg';
