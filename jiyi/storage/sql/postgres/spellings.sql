-- PostgreSQL's text for @name in shared statements, or for @name(x) with x in the place of {0}. Bodies are in
-- documents, and there are no checksums, because a server's pages have their own.

-- name: user
tenant_id;
-- name: key
tenant_id, doc;
-- name: row
tenant_id = :user_id AND doc = :doc;
-- name: owner
tenant_id;
-- name: owned
:user_id;
-- name: tenant
tenant_id, {0};
-- name: of_tenant
:user_id, {0};
-- name: same
{0}.tenant_id = :user_id AND {0}.doc = d.doc;
-- name: mine
{0}.tenant_id = :user_id AND ;
-- name: join
JOIN;
-- name: among
= ANY({0});
-- name: least
least;
-- name: greatest
greatest;
-- name: bool
({0})::int::boolean;
-- name: number
{0}::int;
-- name: has_text
{0}.has_text;
-- name: body
;
-- name: new_body
;
-- name: set_body
;
-- name: body_of
d.body;
-- name: crc
;
-- name: new_crc
;
-- name: set_crc
;
-- name: crc_of
;
-- name: yes
true;
-- name: no
false;
