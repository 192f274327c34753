"""The few kinds of columns on which a statement depends."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

Kind = Literal[
    "whole", "real", "decimal", "flag", "text", "list", "struct", "moment", "date", "other"
]

_NAMES = {"double": "float64", "float": "float32", "bool": "boolean", "date32[day]": "date"}


_TESTS: dict[Kind, list[str]] = {
    "whole": ["integer"],
    "real": ["floating"],
    "decimal": ["decimal"],
    "flag": ["boolean"],
    "text": ["string", "large_string", "string_view"],
    "list": ["list", "large_list", "list_view", "large_list_view", "fixed_size_list"],
    "struct": ["struct"],
    "moment": ["timestamp"],
    "date": ["date"],
}
"""Arrow's words for each kind."""


def kind_of(column: pa.DataType) -> Kind:
    """One of the kinds above; of a dictionary that of its values."""
    if pa.types.is_dictionary(column):
        return kind_of(column.value_type)
    for kind, words in _TESTS.items():
        if any(getattr(pa.types, f"is_{word}")(column) for word in words):
            return kind
    return "other"


def nullable(schema: pa.Schema) -> pa.Schema:
    """Columns none of which is marked as never NULL."""
    return pa.schema([field.with_nullable(True) for field in schema])


def is_numeric(column: pa.DataType) -> bool:
    """Whether it is of numbers; booleans are none."""
    return kind_of(column) in ("whole", "real", "decimal")


def called(column: pa.DataType) -> str:
    """What a type is called in messages."""
    return _NAMES.get(str(column), str(column))
