"""The few kinds of columns on which a statement depends."""

from __future__ import annotations

import pyarrow as pa

WHOLE, REAL, DECIMAL, TEXT, FLAG = "whole", "real", "decimal", "text", "flag"
DATE, MOMENT, LIST, STRUCT, OTHER = "date", "moment", "list", "struct", "other"

_NAMES = {"double": "float64", "float": "float32", "bool": "boolean", "date32[day]": "date"}


def kind_of(column: pa.DataType) -> str:
    """One of the kinds above; of a dictionary that of its values."""
    kinds = pa.types
    if kinds.is_dictionary(column):
        return kind_of(column.value_type)
    if kinds.is_integer(column):
        return WHOLE
    if kinds.is_floating(column):
        return REAL
    if kinds.is_decimal(column):
        return DECIMAL
    if kinds.is_boolean(column):
        return FLAG
    if kinds.is_string(column) or kinds.is_large_string(column) or kinds.is_string_view(column):
        return TEXT
    if is_list(column):
        return LIST
    if kinds.is_struct(column):
        return STRUCT
    if kinds.is_timestamp(column):
        return MOMENT
    return DATE if kinds.is_date(column) else OTHER


def loose(schema: pa.Schema) -> pa.Schema:
    """Columns none of which is marked as never NULL."""
    return pa.schema([field.with_nullable(True) for field in schema])


def is_list(column: pa.DataType) -> bool:
    """Whether it is of lists, of whichever of Arrow's types."""
    names = ("list", "large_list", "list_view", "large_list_view", "fixed_size_list")
    return any(getattr(pa.types, f"is_{name}")(column) for name in names)


def is_numeric(column: pa.DataType) -> bool:
    """Whether it is of numbers; booleans are none."""
    return kind_of(column) in (WHOLE, REAL, DECIMAL)


def called(column: pa.DataType) -> str:
    """What a type is called in messages."""
    return _NAMES.get(str(column), str(column))
