"""Skills: instructions that are shown only when they are needed."""

from jiyi.skills.disclosure import *
from jiyi.skills.registry import *
from jiyi.skills.route import *
