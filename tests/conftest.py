"""Settings of the whole suite: what a property test tries is the same in every run, and no test is timed."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    deadline=None,  # a busy machine is no failure
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")
