"""How many tests by declaration a run makes, among which its false alarms are divided. Pure.

Sums over links are tested anew while flows go on, and each look counts as a test of its own. A loss makes a flow end
later, never earlier, so that the sums of an early look hold fewer losses than chance would have put there.
"""

LEAST_TESTS = 4096
"""Of any run. Our choice, so that what a flow must carry does not differ from run to run: 16 flows over 8 spines make
416 tests, of which 1 % would take 1 237 packets a path, and not 1 321. 157 flows over 8 spines of one plane still fit.
"""


def count_tests(flows: int, planes: int, spines: int) -> int:
    """Tests of a run in which so many flows are measured, at most: LEAST_TESTS, or a power of two above it.

    In each plane a flow is tested path by path, once for what its paths have in common, and once for its host's link.
    When it is judged, its packets are added to the sums of its source's uplinks and of the links down to its
    destination, which are then tested anew. Powers of two, so that a lab that stays up does not have to start its
    detectors anew for every other number of flows.
    """
    paths, alike, entered, link_sums = spines, 1, 1, 2 * spines
    tests = flows * planes * (paths + alike + entered + link_sums)
    return max(LEAST_TESTS, 1 << (tests - 1).bit_length())
