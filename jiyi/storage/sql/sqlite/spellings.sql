-- SQLite's text for @name in shared statements, or for @name(x) with x in the place of {0}.

-- name: user
user_id;
-- name: key
doc;
-- name: row
doc = :doc;
-- name: owner
owner;
-- name: owned
(SELECT owner FROM owners WHERE user_id = :user_id);
-- name: tenant
{0};
-- name: of_tenant
{0};
-- name: same
{0}.doc = d.doc;
-- name: mine
;
-- name: join
CROSS JOIN;
-- name: among
IN (SELECT value FROM json_each({0}));
-- name: least
min;
-- name: greatest
max;
-- name: bool
{0};
-- name: number
{0};
-- name: has_text
{0}.vector_state != 'none';
-- name: body
, body, crc;
-- name: new_body
, :body, :crc;
-- name: set_body
, body = excluded.body, crc = excluded.crc;
-- name: body_of
{0}.body, {0}.crc;
-- name: crc
, crc;
-- name: new_crc
, :crc;
-- name: set_crc
, crc = excluded.crc;
-- name: crc_of
, {0}.crc;
-- name: yes
1;
-- name: no
0;
