"""Working memory: the current task, and the scratch pad of the run that works on it."""

from jiyi.working.scratch import *
from jiyi.working.tasks import *
