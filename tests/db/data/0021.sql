-- A job that waits for a model server.
update jobs set waits_for = 'model.old:443', waiting_since = now() where subject_id = 'scheduled-1';
