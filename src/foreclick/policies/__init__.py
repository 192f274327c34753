"""Policies: tables of lists or of marginals, and what they would show."""

from foreclick.policies.base import NO_ITEM, ListRows, LogView, Policy, SlotRows
from foreclick.policies.columns import PolicyLike, as_policy, policy_for
from foreclick.policies.lists import Lists, Observed, Ranking
from foreclick.policies.marginals import Marginals
from foreclick.policies.serving import Picker
