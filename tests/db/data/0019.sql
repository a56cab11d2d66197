-- Who made a quality.
update video_qualities set worker_name = 'old encoder' where video_id = '00000000-0000-4000-8000-000000000601';
