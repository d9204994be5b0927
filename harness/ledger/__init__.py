"""What a model is made of and what that costs, counted from outside: parameters, operations, memory, order of steps."""

from harness.ledger.counting import ORDER, Ledger, count_costs
from harness.ledger.naming import ledger
from harness.ledger.parts import PARTS

__all__ = ["ORDER", "PARTS", "Ledger", "count_costs", "ledger"]
