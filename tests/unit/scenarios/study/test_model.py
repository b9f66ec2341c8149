"""A grid to its points, and a point to the links that drop."""

import msgspec
import pytest

from scenarios.study.model import Point, Study, failed_links, points_of, study_complaints

PLAIN = {"version": 1, "name": "x", "rates": ("1%",), "packets": (1000,)}


def study(**parts):
    return Study.model_validate(PLAIN | parts)


def point(failure="one", seed=1, **parts):
    values = {
        "spray": "rotation",
        "expectation": "declared",
        "planes": 1,
        "leaves": 8,
        "spines": 8,
        "strides": (1, 3),
        "rate": 0.01,
        "packets": 1000,
        "failure": failure,
        "asked_rate": 0.01,
        "miss": 0.01,
        "false_alarm": 1e-3,
        "seed": seed,
    }
    return msgspec.convert(values | parts, Point)


def test_every_list_is_crossed_and_each_point_has_its_healthy_twin():
    grid = study(spray=("rotation", "random"), rates=("1%", "2%"), packets=(100, 200), seeds=3, healthy_seeds=2)
    points = list(points_of(grid))
    assert len(points) == 2 * 4 * (3 + 2)
    assert len(set(points)) == len(points)
    assert {each.failure for each in points} == {"one", "none"}
    assert {each.rate for each in points} == {0.01, 0.02}
    assert [each.seed for each in points] == sorted(each.seed for each in points), "a study cut short has all cells"


def test_pairs_are_not_crossed():
    grid = study(rates=(), packets=(), pairs=({"rate": "1%", "packets": 100}, {"rate": "2%", "packets": 50}), seeds=1)
    assert {(each.rate, each.packets) for each in points_of(grid)} == {(0.01, 100), (0.02, 50)}


def test_the_asked_rate_is_the_points_unless_it_is_given():
    assert {each.asked_rate for each in points_of(study())} == {0.01}
    assert {each.asked_rate for each in points_of(study(asked_rate="0.5%"))} == {0.005}


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ({"packets": ()}, "do not fit"),
        ({"pairs": ({"rate": "1%", "packets": 9},)}, "do not fit"),
        ({"strides": (8,)}, "write to themselves"),
        ({"packets": (1_000_000,), "spines": (64,)}, "more than a flow may have"),
        ({"leaves": 2, "strides": (1,), "failures": ("same-leaf",)}, "cannot have such failures"),
        ({"spines": (1,), "failures": ("disjoint",)}, "cannot have such failures"),
    ],
)
def test_what_does_not_fit_is_told(parts, wrong):
    assert any(wrong in each.wrong for each in study_complaints(study(**parts)))
    assert list(study_complaints(study())) == []


KINDS = {
    "none": 0, "one": 1, "same-spine": 2, "same-leaf": 2, "disjoint": 2, "four-of-plane": 4, "two-of-pair": 2,
    "host-link": 1,
}  # fmt: skip


@pytest.mark.parametrize(("failure", "count"), KINDS.items())
def test_failures_are_what_they_are_called(failure, count):
    for seed in range(1, 60):
        links = failed_links(point(failure, seed))
        assert len(set(links)) == count
        ends = [end for link in links for end in (link.sender, link.receiver)]
        if failure == "same-spine":
            assert links[0].sender == links[1].sender
        if failure == "same-leaf":
            assert links[0].sender == links[1].sender
            assert links[0].receiver != links[1].receiver
        if failure == "disjoint":
            assert len(set(ends)) == 4
        if failure == "two-of-pair":
            assert len({end for end in ends if "leaf" in str(end)}) <= 2


def test_a_point_repeats_and_seeds_differ():
    assert failed_links(point(seed=5)) == failed_links(point(seed=5))
    assert len({failed_links(point(seed=seed)) for seed in range(40)}) > 20
    assert point().key != point(seed=2).key
    assert point().key == (
        '{"spray":"rotation","expectation":"declared","planes":1,"leaves":8,"spines":8,"strides":[1,3],"rate":0.01,'
        '"packets":1000,"failure":"one","asked_rate":0.01,"miss":0.01,"false_alarm":0.001,"seed":1}'
    ), "folders of old are gone on with"
    assert point().cell_seed != point(packets=999).cell_seed
