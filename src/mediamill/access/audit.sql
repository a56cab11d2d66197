-- What was done, by whom, from where.

-- name: insert_entry
-- Before it is done: what is not in the log was not done. `outcome` comes afterwards.
insert into audit (who, kind, address, action, subject, outcome)
values (:who, :kind, :address, :action, :subject, :outcome)
returning id;

-- name: finish_entry!
update audit set outcome = :outcome, subject = :subject where id = :entry_id;

-- name: list_entries
select id, at, who, kind, address, action, subject, outcome from audit
where (:before::bigint is null or id < :before) and (:who::text is null or who = :who)
    and (:action::text is null or action = :action or starts_with(action, :action || '.'))
order by id desc limit :amount;

-- name: sweep_entries!
delete from audit where id in (
    select id from audit where at < now() - make_interval(secs => 86400 * :days::double precision) limit :batch
);
