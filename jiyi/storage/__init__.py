"""Where memory is kept: small protocols, and the SQL for them."""

from jiyi.storage.damage import *
from jiyi.storage.database import *
from jiyi.storage.ledger import *
from jiyi.storage.relational.snapshot import *
from jiyi.storage.relational.write import *
from jiyi.storage.rows import *
from jiyi.storage.search.candidates import *
from jiyi.storage.sqlite import *
from jiyi.storage.store import *
from jiyi.storage.transfer.conversations import *
from jiyi.storage.transfer.export import *
from jiyi.storage.transfer.files import *
from jiyi.storage.transfer.markdown import *
from jiyi.storage.trash import *
from jiyi.storage.vectors import *
