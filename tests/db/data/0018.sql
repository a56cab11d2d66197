-- A pool whose attempts are stopped when they make no progress.
update pools set no_progress_seconds = 77 where name = 'video';
