"""If this fails, an interval is widened by a constant of unknown origin, or not at all."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

from foreclick import allowances

SOURCES = Path(allowances.__file__).parents[1]
BODY = ast.parse(Path(allowances.__file__).read_text(encoding="utf-8")).body
PARAGRAPHS = {
    ast.unparse(node.targets[0]): ast.unparse(after)
    for node, after in pairwise(BODY)
    if isinstance(node, ast.Assign) and isinstance(after, ast.Expr)
}
NAMES = sorted(name for name in vars(allowances) if name.isupper())


@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_paragraph_on_where_its_number_comes_from(name):
    assert re.search("[Cc]hosen|Measured|Estimated", PARAGRAPHS[name])


@pytest.mark.parametrize("name", NAMES)
def test_each_widens_an_interval_somewhere(name):
    users = [path for path in SOURCES.rglob("*.py") if path.name != "allowances.py"]
    uses = sum(len(re.findall(rf"\b{name}\b", path.read_text("utf-8"))) for path in users)
    assert uses > 1  # one of them is the import
