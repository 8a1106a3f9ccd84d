"""Context: blocks and a budget become one window."""

from jiyi.context.builder import *
from jiyi.context.conversation import *
from jiyi.context.handover import *
from jiyi.context.health import *
from jiyi.context.pack import *
from jiyi.context.render import *
