"""Agent: a small loop of goals, actions, memory and environment."""

from jiyi.agent.actions import Action, action
from jiyi.agent.agent import Agent
from jiyi.agent.environment import Environment, Observation
from jiyi.agent.goals import Goal
from jiyi.agent.run import Limits, Run, Stopped

__all__ = ["Action", "Agent", "Environment", "Goal", "Limits", "Observation", "Run", "Stopped", "action"]
