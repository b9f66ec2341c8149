import errno

from testbed.errors import KernelError, MissingFeatureError, ReadBackError, UnknownNameError


def test_a_kernel_error_names_node_request_and_errno():
    error = KernelError("p0-leaf3", "add route 5f00:0:1000::/48", errno.EEXIST, "exists already")
    assert str(error) == "p0-leaf3: add route 5f00:0:1000::/48: EEXIST: File exists (exists already)"
    assert "errno 9999" in str(KernelError("h0", "x", 9999))


def test_a_read_back_error_shows_the_first_lines_and_keeps_all():
    error = ReadBackError(tuple(f"line {i}" for i in range(30)), shown=2)
    told = "30 differences between wanted and found:\nline 0\nline 1\n... and 28 more"
    assert str(error) == told
    assert len(error.differences) == 30


def test_a_missing_feature_says_what_to_enable():
    assert str(MissingFeatureError("netem", "enable CONFIG_NET_SCH_NETEM")) == (
        "netem is missing: enable CONFIG_NET_SCH_NETEM"
    )


def test_near_names_are_offered():
    assert str(UnknownNameError("link", "x", "no such link", ("a", "b"))) == (
        "link 'x': no such link; did you mean a or b?"
    )
