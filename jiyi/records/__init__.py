"""The nouns of jiyi: frozen values without any input or output of their own."""

from jiyi.records.block import SECTIONS, Block, BlockKind, Section
from jiyi.records.budget import PRESETS, SHARED_SECTIONS, SHARES, Allocation, Budget
from jiyi.records.episode import Episode
from jiyi.records.fact import Fact, FactCategory, FactMethod, FactStatus, names_point
from jiyi.records.ids import new_id, stable_id
from jiyi.records.knowledge import Knowledge
from jiyi.records.message import ContentPart, Dumps, Given, Message, Role, ToolCall, as_mapping
from jiyi.records.metadata import Label, Labels, check_metadata, has_labels
from jiyi.records.models import ModelSize, model_size, model_sizes
from jiyi.records.query import DOUBT, SEARCHABLE, Hit, Hits, Kind, Match, Query, Record, Searchable
from jiyi.records.scope import Scope
from jiyi.records.session import Session
from jiyi.records.skill import Skill
from jiyi.records.summary import Summary
from jiyi.records.task import Outcome, Step, StepStatus, Task, TaskStatus, TriggerType
from jiyi.records.window import Report, ReportItem, ReportStep, Window
from jiyi.records.worth import ForgetWeights

__all__ = [
    "DOUBT",
    "PRESETS",
    "SEARCHABLE",
    "SECTIONS",
    "SHARED_SECTIONS",
    "SHARES",
    "Allocation",
    "Block",
    "BlockKind",
    "Budget",
    "ContentPart",
    "Dumps",
    "Episode",
    "Fact",
    "FactCategory",
    "FactMethod",
    "FactStatus",
    "ForgetWeights",
    "Given",
    "Hit",
    "Hits",
    "Kind",
    "Knowledge",
    "Label",
    "Labels",
    "Match",
    "Message",
    "ModelSize",
    "Outcome",
    "Query",
    "Record",
    "Report",
    "ReportItem",
    "ReportStep",
    "Role",
    "Scope",
    "Searchable",
    "Section",
    "Session",
    "Skill",
    "Step",
    "StepStatus",
    "Summary",
    "Task",
    "TaskStatus",
    "ToolCall",
    "TriggerType",
    "Window",
    "as_mapping",
    "check_metadata",
    "has_labels",
    "model_size",
    "model_sizes",
    "names_point",
    "new_id",
    "stable_id",
]
