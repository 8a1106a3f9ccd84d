"""A real local /embeddings server that refuses requests with texts it does not like."""

from typing import Any

from scripted_endpoint import Reply, ScriptedEndpoint

POISON = "poison"


class RefusingEndpoint(ScriptedEndpoint):
    """Refuses texts of more words than ``most``, and those with ``refused`` in them; a word is a token."""

    def __init__(self, *, most: int = 10_000, status: int = 400, says: str = "no") -> None:
        super().__init__()
        self.refused = POISON
        self.most, self.status, self.says = most, status, says

    def usual(self, asked: dict[str, Any]) -> Reply:
        if any(len(text.split()) > self.most or self.refused in text for text in asked["input"]):
            return Reply(status=self.status, body={"error": {"message": self.says}})
        return Reply()
