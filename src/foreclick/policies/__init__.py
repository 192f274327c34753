"""Policies: tables of lists or of marginals, and what they would show."""

from foreclick.policies.base import NO_ITEM, ListRows, LogView, Policy, SlotRows
from foreclick.policies.lists import Lists, Observed, PolicyLike, Ranking, as_policy
from foreclick.policies.marginals import Marginals
from foreclick.policies.serving import Picker
