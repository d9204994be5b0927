"""The built-in models, tasks, probes and suites, found through the same entry points as anybody's."""

if __name__ != "harness_plugins":
    raise ImportError(
        f"the built-in plugins were imported as {__name__!r}; import them as 'harness_plugins' "
        "(installed together with harness), or each module would exist twice"
    )
