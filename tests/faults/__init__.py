"""Whatever one plugin, the machine or the user does to a run, the results of all others are right and kept.

Faults are put into runs of `harness run`, in processes of their own. A short form of each test is in the default run;
`pytest tests/faults -m slow` is the long one, which ends with tables of what was counted.
"""
