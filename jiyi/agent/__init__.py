"""Agent: a small loop of goals, actions, memory and environment."""

from jiyi.agent.actions import Action, Environment, Observation, action
from jiyi.agent.agent import Agent
from jiyi.agent.run import Goal, Limits, Run, Stopped

__all__ = ["Action", "Agent", "Environment", "Goal", "Limits", "Observation", "Run", "Stopped", "action"]
