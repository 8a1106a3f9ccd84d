"""A page of a list: the result of the verbs that list records."""

from collections.abc import Iterable
from typing import Any, TypeVar

__all__ = ["Listing"]

_T = TypeVar("_T")


class Listing(list[_T]):
    """Records, and the cursor of the next page.

    Attributes:
        next: pass it to the same verb with the same arguments as ``after`` to get the next page;
            None after the last.
    """

    __slots__ = ("next",)

    def __init__(self, records: Iterable[_T] = (), next: str | None = None) -> None:
        super().__init__(records)
        self.next = next

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Tell pydantic its JSON form: ``{"items": [...], "next": ...}``."""
        from typing import get_args

        from pydantic_core import core_schema

        (of,) = get_args(source) or (Any,)
        fields = {
            "items": core_schema.typed_dict_field(core_schema.list_schema(handler.generate_schema(of))),
            "next": core_schema.typed_dict_field(
                core_schema.nullable_schema(core_schema.str_schema()), required=False
            ),
        }
        form = core_schema.typed_dict_schema(fields)
        return core_schema.no_info_after_validator_function(
            lambda read: cls(read["items"], read.get("next")),
            form,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda listing: {"items": list(listing), "next": listing.next}, return_schema=form
            ),
        )
