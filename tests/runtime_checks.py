"""The type checker that jaxtyping applies to every annotated function while tests run."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as for mypy
