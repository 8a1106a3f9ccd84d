"""What makes an episode worth keeping, in numbers."""

from dataclasses import asdict, dataclass

from jiyi.errors import InputError

__all__ = ["ForgetWeights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetWeights:
    """What each sign adds to an episode's importance, or takes from it; see `ForgetRule`.

    Raises:
        InputError: a weight is no number from -1 to 1, or one of age and access is below 0.
    """

    base: float = 0.5  # what a new episode has
    age: float = 0.1  # taken for each 720 hours of age
    age_most: float = 0.3  # most that age takes
    access: float = 0.05  # added for each time it was recalled
    access_most: float = 0.2  # most that these add
    success: float = 0.1  # added by the outcome
    partial: float = 0.0
    failed: float = -0.05
    alert: float = 0.15  # added where an alert set it off
    steps: float = 0.1  # added where it has more than 3 steps

    def __post_init__(self) -> None:
        """Refuse what cannot be weighed."""
        for name, value in asdict(self).items():
            least = 0 if name.startswith(("age", "access")) else -1
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1:
                raise InputError(f"the weight {name}={value!r} must be a number from {least} to 1")
