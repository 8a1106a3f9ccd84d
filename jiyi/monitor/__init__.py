"""Monitor windows, replies, summaries and steps: figures, alerts and exports."""

from jiyi.monitor.drift import *
from jiyi.monitor.export import *
from jiyi.monitor.figures import *
from jiyi.monitor.hits import *
from jiyi.monitor.monitor import *
