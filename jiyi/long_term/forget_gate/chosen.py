"""The gate that the settings describe."""

from datetime import timedelta

from jiyi.clock import Clock
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.rules import FactRule, ForgetRule, KnowledgeRule, MessageRule, Rule
from jiyi.settings import Settings
from jiyi.storage import Store, Trash, Upkeep

__all__ = ["gate_of"]


def gate_of(
    store: Store, upkeep: Upkeep, trash: Trash, *, settings: Settings, rule: Rule | None, clock: Clock
) -> ForgetGate:
    """Return the gate of these settings; a rule of the caller's own stands in for that of episodes."""
    messages = settings.forget_messages_days
    return ForgetGate(
        store,
        upkeep,
        trash,
        rule=rule
        or ForgetRule(
            threshold=settings.forget_threshold,
            min_age=timedelta(days=settings.forget_min_age_days),
            max_episodes=settings.forget_max_episodes,
            weights=settings.forget_weights,
        ),
        others=(
            KnowledgeRule(),
            FactRule(),
            MessageRule(max_age=timedelta(days=messages) if messages else None),
        ),
        clock=clock,
        grace=timedelta(days=settings.forget_grace_days),
    )
