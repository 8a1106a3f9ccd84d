"""The records of jiyi: frozen values that do no input or output."""

from jiyi.records.budget import *
from jiyi.records.checks import *
from jiyi.records.experience import *
from jiyi.records.fact import *
from jiyi.records.filters import *
from jiyi.records.item import *
from jiyi.records.message import *
from jiyi.records.query import *
from jiyi.records.session import *
from jiyi.records.skill import *
from jiyi.records.window import *
