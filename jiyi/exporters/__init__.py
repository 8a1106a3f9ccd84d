"""Export facts, knowledge and items into files of other programs."""

from jiyi.exporters.formats import *
