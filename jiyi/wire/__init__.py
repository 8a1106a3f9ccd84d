"""How verbs and records travel: one table of routes and one JSON form, shared by server and client."""

from jiyi.wire.codec import *
from jiyi.wire.routes import *
