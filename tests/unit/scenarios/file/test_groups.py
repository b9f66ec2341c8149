"""Groups of a training job: who works with whom."""

import pytest

from scenarios.file.groups import Group, groups_of

HOSTS = range(8)


@pytest.mark.parametrize(
    ("group", "size", "groups"),
    [
        (None, None, ((0, 1, 2, 3, 4, 5, 6, 7),)),
        (Group.TP, 2, ((0, 1), (2, 3), (4, 5), (6, 7))),
        (Group.EP, 4, ((0, 1, 2, 3), (4, 5, 6, 7))),
        (Group.DP, 4, ((0, 2, 4, 6), (1, 3, 5, 7))),
        (Group.PP, 2, ((0, 4), (1, 5), (2, 6), (3, 7))),
        (Group.DP, None, ((0, 1, 2, 3, 4, 5, 6, 7),)),
    ],
)
def test_groups_are_neighbours_or_strided(group: Group | None, size: int | None, groups: tuple) -> None:
    assert groups_of(group, size, HOSTS) == groups


@pytest.mark.parametrize("size", [2, 4])
def test_tensor_and_data_groups_cross_in_one_host(size: int) -> None:
    for tensor in groups_of(Group.TP, size, HOSTS):
        for data in groups_of(Group.DP, 8 // size, HOSTS):
            assert len(set(tensor) & set(data)) == 1
