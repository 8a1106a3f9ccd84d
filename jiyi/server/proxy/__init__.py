"""A proxy for OpenAI's API: requests go on to another endpoint, with what the memory recalls for them."""

from jiyi.server.proxy.forms import CHAT, RESPONSES, Form, items_of, with_recalled
from jiyi.server.proxy.relay import Relay, Upstream
from jiyi.server.proxy.routes import Proxy, session_of

__all__ = [
    "CHAT",
    "RESPONSES",
    "Form",
    "Proxy",
    "Relay",
    "Upstream",
    "items_of",
    "session_of",
    "with_recalled",
]
