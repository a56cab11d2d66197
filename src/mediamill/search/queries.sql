-- What can be found. Every row of a vector or text belongs to one thing, and goes with it.

-- name: ensure_model
insert into ai_models (name, task, engine, dimensions) values (:name, :task, :engine, :dimensions)
on conflict (name) do update set dimensions = coalesce(ai_models.dimensions, excluded.dimensions) returning id;

-- name: find_model
select id from ai_models where name = :name;

-- name: drop_vectors!
delete from search_vectors where model_id = :model_id and asset_id is not distinct from :asset_id
    and scene_id is not distinct from :scene_id and frame_id is not distinct from :frame_id
    and entry_id is not distinct from :entry_id;

-- name: put_vector!
insert into search_vectors (model_id, library, asset_id, scene_id, frame_id, entry_id, v)
values (:model_id, :library, :asset_id, :scene_id, :frame_id, :entry_id, :v::text::halfvec);
