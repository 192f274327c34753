"""How each dialect of SQL writes the few things in which dialects differ.

Statements are text, written by pure functions in DuckDB's words. What another engine spells
otherwise stands here, in one row of `SPELLINGS`. Names and text get into a statement only by
`Spelling.name` and `Spelling.literal`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foreclick.errors import SourceError

DIGITS = 7
"""Of a hash, hexadecimal: 28 bits are far more than 30 buckets need, and overflow nowhere."""

_BY_DIGIT = " + ".join(  # a hexadecimal number digit by digit, where an engine has no function
    f"(strpos('0123456789abcdef', substr({{digits}}, {i + 1}, 1)) - 1) * {16 ** (DIGITS - 1 - i)}"
    for i in range(DIGITS)
)


@dataclass(frozen=True)
class Spelling:
    """How a dialect writes the few things in which dialects differ.

    Attributes:
        quote: around names.
        escapes: "" where a backslash is a letter as any other, "text" where it escapes letters of
            text, "names" where those of names too.
        dot: before a field of a struct.
        whole, real, text, date: the names of types, or how a value becomes one.
        element: element `k` (from 1; `before` counts from 0) of an array, or a `field` of it; NULL
            beyond the end.
        length: of an array; NULL for none.
        remainder: of integers.
        md5: of UTF-8 text, hexadecimal, in lower case.
        number: an integer of seven hexadecimal digits.
        nan: whether a double is no number. Comparisons do not tell: DuckDB trusts the bounds that
            stand in a Parquet file, which leave NaN out.
        replace: every match of a regular expression by something else.
        split: text at commas, as an array.
        json: an array of text, of JSON; NULL where it is none, or the engine does not read JSON.
        within: the text at a path of JSON.
        first: a value of the first element `p` of an array for which a condition holds.
        moment: the name of the type of times.
        micros: microseconds since 1970 of a time.
        day: the date that is so many days after 1970 began.
        unnest: a row for each element of an array: what stands behind the table.
        unnested, offset: the element, and its place from 0.
    """

    quote: str = '"'
    escapes: str = ""
    dot: str = "."
    whole: str = "BIGINT"
    real: str = "DOUBLE"
    text: str = "VARCHAR"
    date: str = "DATE"
    element: str = "CASE WHEN {length} >= {k} THEN ({array})[{k}]{field} END"
    length: str = "len({array})"
    remainder: str = "({a} % {b})"
    md5: str = "md5({text})"
    number: str = _BY_DIGIT
    nan: str = "isnan({number})"
    replace: str = "regexp_replace({text}, {pattern}, {by}, 'g')"
    split: str = "string_split({text}, ',')"
    json: str = "NULL"
    within: str = "json_extract_string({text}, {path})"
    first: str = ""
    moment: str = "TIMESTAMP"
    micros: str = "epoch_us({moment})"
    day: str = "(DATE '1970-01-01' + CAST({days} AS INTEGER))"
    unnest: str = "CROSS JOIN unnest({array}) WITH ORDINALITY AS u(e, o)"
    unnested: str = "u.e"
    offset: str = "u.o - 1"

    def name(self, column: str) -> str:
        """A column's or a table's name, whatever letters it has."""
        if "\0" in column:
            raise SourceError(f"{column!r} has a NUL character, which no engine takes.")
        if self.escapes == "names":
            return f"{self.quote}{_escaped(column, self.quote)}{self.quote}"
        return f"{self.quote}{column.replace(self.quote, self.quote * 2)}{self.quote}"

    def column(self, name: str, table: str = "s") -> str:
        """A column of a table by its alias; all names are quoted: engines fold others' case."""
        return f"{table}.{self.name(name)}"

    def names(self, columns: Mapping[str, str]) -> str:
        """What to SELECT: values by the names that they get."""
        return ", ".join(f"{value} AS {self.name(name)}" for name, value in columns.items())

    def equal(self, names: Sequence[str]) -> str:
        """That `s` and `o` agree in these columns."""
        return " AND ".join(f"{self.column(n)} = {self.column(n, 'o')}" for n in names)

    def literal(self, text: str) -> str:
        """A text, whatever letters it has."""
        if "\0" in text:
            raise SourceError(f"{text!r} has a NUL character, which no engine takes.")
        inner = _escaped(text, "'") if self.escapes else text.replace("'", "''")
        return f"'{inner}'"

    def cast(self, value: str, kind: str) -> str:
        """A value as "whole", "real", "text" or "date"."""
        name: str = getattr(self, kind)
        return name.format(value=value) if "{value}" in name else f"CAST({value} AS {name})"

    def number_of(self, value: float) -> str:
        """A double, exact to the last bit: a decimal literal is off by a bit on some engines."""
        return self.cast(f"'{value!r}'", "real")

    def finite(self, value: str, most: float = sys.float_info.max) -> str:
        """Whether a double is a number, and not larger than this."""
        bound = self.number_of(most)
        return f"NOT {self.nan.format(number=value)} AND {value} <= {bound}"

    def at(self, array: str, k: int, field: str = "") -> str:
        """Element k of an array, or a field of it; NULL where the array is shorter."""
        return self.element.format(
            array=array,
            k=k,
            before=k - 1,
            length=self.length.format(array=array),
            field=f"{self.dot}{self.name(field)}" if field else "",
        )

    def hashed(self, value: str, salt: str = "") -> str:
        """The first seven hexadecimal digits of the MD5 of salt and text, as a number."""
        text = f"coalesce({self.cast(value, 'text')}, '')"
        text = f"concat({self.literal(salt)}, {text})" if salt else text
        return self.number.format(digits=f"substr({self.md5.format(text=text)}, 1, {DIGITS})")

    def joined(self, values: Sequence[str]) -> str:
        """Values as one text, with commas between them; NULL is none."""
        texts = [f"coalesce({self.cast(value, 'text')}, '')" for value in values]
        commas = ", ',', "
        return texts[0] if len(texts) == 1 else f"concat({commas.join(texts)})"

    def listed(self, text: str) -> str:
        """A list that is written as text: JSON, or plain, such as ``[1, 2]``, ``a|b``, ``a, b``.

        Text with quotes that is no JSON is NULL, and thus found by the rules of a log, not guessed.
        """
        inner = self.replaced(f"trim({text})", r"^\[|\]$", "")
        plain = self.replaced(f"trim({inner})", r"\s*[,|]\s*", ",")
        split = f"CASE WHEN {plain} <> '' THEN {self.split.format(text=plain)} END"
        quoted = f"""{text} LIKE '%"%' OR {text} LIKE {self.literal("%'%")}"""
        double = f"""replace({text}, {self.literal("'")}, '"')"""  # as Python writes lists
        json = self.json.format(text=text, double=double)
        return f"CASE WHEN {quoted} THEN {json} ELSE {split} END"

    def replaced(self, text: str, pattern: str, by: str) -> str:
        """Text with every match of a regular expression replaced."""
        return self.replace.format(text=text, pattern=self.literal(pattern), by=self.literal(by))


def _escaped(text: str, quote: str) -> str:
    """Text between quotes where backslashes escape: a line must not end there."""
    for letter, written in (("\\", r"\\"), (quote, f"\\{quote}"), ("\n", r"\n"), ("\r", r"\r")):
        text = text.replace(letter, written)
    return text


_DUCKDB_JSON = "WHEN json_valid({0}) THEN from_json({0}, '[\"VARCHAR\"]')"
DUCKDB = Spelling(
    element="({array})[{k}]{field}",
    number="CAST('0x' || {digits} AS BIGINT)",
    json=f"CASE {_DUCKDB_JSON.format('{text}')} {_DUCKDB_JSON.format('{double}')} END",
    first="([{value} for p in {array} if {condition}])[1]",
)
_SPARK = Spelling(
    quote="`",
    escapes="text",
    text="STRING",
    element="get({array}, {before}){field}",
    length="CASE WHEN {array} IS NOT NULL THEN size({array}) END",
    number="CAST(conv({digits}, 16, 10) AS BIGINT)",
    replace="regexp_replace({text}, {pattern}, {by})",
    split="split({text}, ',')",
    json="coalesce(from_json({text}, 'array<string>'), from_json({double}, 'array<string>'))",
    within="get_json_object({text}, {path})",
    first="get(transform(filter({array}, p -> {condition}), p -> {value}), 0)",
    micros="unix_micros(CAST({moment} AS TIMESTAMP))",
    day="date_add(DATE '1970-01-01', CAST({days} AS INT))",
    unnest="LATERAL VIEW posexplode({array}) u AS o, e",
    offset="u.o",
)
_TRINO = Spelling(
    element="element_at({array}, {k}){field}",
    length="cardinality({array})",
    md5="lower(to_hex(md5(to_utf8({text}))))",
    number="from_base({digits}, 16)",
    nan="is_nan({number})",
    replace="regexp_replace({text}, {pattern}, {by})",
    split="split({text}, ',')",
    within="json_extract_scalar({text}, {path})",
    micros="CAST(to_unixtime({moment}) * 1000000 AS BIGINT)",
    day="date_add('day', {days}, DATE '1970-01-01')",
)
SPELLINGS: dict[str, Spelling] = {
    "duckdb": DUCKDB,
    "pyspark": _SPARK,
    "databricks": _SPARK,
    "postgres": Spelling(
        real="DOUBLE PRECISION",
        text="TEXT",
        element="(({array})[{k}]){field}",
        length="cardinality({array})",
        number="CAST(CAST('x' || {digits} AS BIT(28)) AS INT)",
        nan="({number} = 'NaN')",
        split="string_to_array({text}, ',')",
        json="CASE WHEN {text} LIKE '[%]' AND {text} NOT LIKE '[''%' "
        "THEN ARRAY(SELECT jsonb_array_elements_text(CAST({text} AS JSONB))) END",
        within="(jsonb_path_query_first(CAST({text} AS JSONB), {path}) #>> '{{}}')",
        micros="CAST(extract(epoch FROM {moment}) * 1000000 AS BIGINT)",
    ),
    "clickhouse": Spelling(
        escapes="names",
        whole="Nullable(Int64)",
        real="Nullable(Float64)",
        text="Nullable(String)",
        date="Nullable(Date32)",
        length="length({array})",
        md5="lower(hex(MD5({text})))",
        number="CAST(reinterpretAsUInt32(reverse(unhex('0' || {digits}))) AS Nullable(Int64))",
        nan="isNaN({number})",
        replace="replaceRegexpAll({text}, {pattern}, {by})",
        split="splitByChar(',', {text})",
        within="JSON_VALUE({text}, {path})",
        moment="Nullable(DateTime64(6))",
        micros="toUnixTimestamp64Micro(CAST({moment} AS Nullable(DateTime64(6))))",
        day="(toDate32('1970-01-01') + {days})",
        unnest="ARRAY JOIN {array} AS e, arrayEnumerate({array}) AS o",
        unnested="e",
        offset="o - 1",
    ),
    "bigquery": Spelling(
        quote="`",
        escapes="names",
        whole="INT64",
        real="FLOAT64",
        text="STRING",
        element="({array})[SAFE_OFFSET({before})]{field}",
        length="ARRAY_LENGTH({array})",
        remainder="MOD({a}, {b})",
        md5="to_hex(md5({text}))",
        number="CAST('0x' || {digits} AS INT64)",
        nan="is_nan({number})",
        replace="regexp_replace({text}, {pattern}, {by})",
        split="split({text}, ',')",
        json="coalesce(JSON_VALUE_ARRAY({text}), JSON_QUERY_ARRAY({text}))",
        within="JSON_VALUE({text}, {path})",
        first="(SELECT {value} FROM UNNEST({array}) AS p WHERE {condition} LIMIT 1)",
        micros="unix_micros(CAST({moment} AS TIMESTAMP))",
        day="date_from_unix_date({days})",
        unnest="CROSS JOIN UNNEST({array}) AS e WITH OFFSET AS o",
        unnested="e",
        offset="o",
    ),
    "snowflake": Spelling(  # elements of its arrays are variants
        escapes="text",
        dot=":",
        element="get({array}, {before}){field}",
        length="array_size({array})",
        number="to_number({digits}, 'XXXXXXX')",
        nan="({number} = 'NaN')",
        replace="regexp_replace({text}, {pattern}, {by})",
        split="split({text}, ',')",
        within="json_extract_path_text({text}, substr({path}, 3))",
        micros="date_part(epoch_microsecond, {moment})",
        day="dateadd(day, {days}, DATE '1970-01-01')",
        unnest="CROSS JOIN LATERAL flatten(input => {array}) AS u",
        unnested="u.value",
        offset="u.index",
    ),
    "trino": _TRINO,
    "athena": _TRINO,
    "mariadb": Spelling(  # which finds "Anna" equal to "anna", unless it compares bytes
        quote="`",
        escapes="text",
        whole="SIGNED",
        text="CONVERT({value} USING utf8mb4) COLLATE utf8mb4_nopad_bin",
        number="CAST(conv({digits}, 16, 10) AS SIGNED)",
        nan="1 = 0",
    ),
    "datafusion": Spelling(
        element="({array})[{k}]{field}",
        length="CAST(array_length({array}) AS BIGINT)",
        split="string_to_array({text}, ',')",
    ),
}
"""By the name of the dialect."""


def check_condition(text: str, say: Spelling) -> None:
    """Refuse SQL that would not stay within the parentheses around it.

    The engine's own grammar judges the rest.
    """
    depth, quote, at = 0, "", 0
    while at < len(text):
        letter = text[at]
        if quote:
            if letter == "\\" and say.escapes:
                at += 1
            elif letter == quote:
                quote = ""
        elif letter in "'\"`":
            quote = letter
        elif letter == ";" or text.startswith(("--", "/*", "#"), at):
            raise ValueError(f"{letter!r} at {at + 1}: it must be one condition, without comments")
        else:
            depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        at += 1
    if quote or depth or not text.strip():
        raise ValueError("quotes and parentheses must close within it")
