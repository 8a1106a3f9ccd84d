"""Forgetting on request: what was asked for goes with all that was derived from it."""

from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.long_term.forgetting.receipt import ForgetReceipt, RestoreReceipt

__all__ = ["ForgetReceipt", "Forgetting", "RestoreReceipt"]
