"""A width that heads share."""

import math


def check_heads(width: int, heads: int) -> None:
    """Refuse a width that the heads cannot share.

    Raises:
        ValueError: there is a rest.
    """
    if width % heads:
        raise ValueError(
            f"the heads share d_model equally, but d_model={width} is not divisible by heads={heads}; use "
            f"d_model={math.ceil(width / heads) * heads} or another number of heads"
        )
