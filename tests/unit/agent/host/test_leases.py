"""What a client has leased is destroyed when it is gone, and nothing of anybody else."""

from agent.host.control.leases import Leases
from agent.host.control.requests import CreateQp, Destroy, QpName, RegionName, RegisterRegion
from agent.host.errors import RequestError
from agent.host.programs.requests import CreateCq, DestroyRank


class Worker:
    """Remembers what there is."""

    def __init__(self):
        self.there = {}

    def serve(self, request):
        number = len(self.there)
        match request:
            case CreateQp(host=host):
                self.there[QpName(host, number)] = True
                return {"qpn": number}
            case RegisterRegion(host=host):
                self.there[RegionName(host, number)] = True
                return {"rkey": number}
            case Destroy(qps=qps, regions=regions):
                for name in (*qps, *regions):
                    if not self.there.get(name):
                        raise RequestError(f"no {name}")
                    self.there[name] = False
        return {}

    def left(self):
        return [name for name, is_there in self.there.items() if is_there]


def test_leased_queue_pairs_and_regions_go_with_their_client():
    worker = Worker()
    leases = Leases(worker.serve)
    leases.serve(RegisterRegion(0, 9, 1, "source", leased=True), 1)
    leases.serve(CreateQp(0, 1, leased=True), 1)
    leases.serve(CreateQp(2, 3, leased=True), 2)
    leases.serve(CreateQp(4, 5), 1)
    leases.left(3)
    assert len(worker.left()) == 4
    leases.left(1)
    assert worker.left() == [QpName(2, 2), QpName(4, 3)]
    leases.left(1)
    assert len(worker.left()) == 2


def test_what_the_client_has_destroyed_itself_does_no_harm():
    worker = Worker()
    leases = Leases(worker.serve)
    leases.serve(RegisterRegion(0, 9, 1, "source", leased=True), 1)
    leases.serve(CreateQp(0, 1, leased=True), 1)
    leases.serve(Destroy(qps=(QpName(0, 1),)), 1)
    leases.left(1)
    assert worker.left() == []


def test_a_number_that_was_given_out_again_is_left_to_who_has_it_now():
    worker = Worker()
    leases = Leases(worker.serve)
    leases.serve(CreateQp(0, 1, leased=True), 1)
    leases.serve(RegisterRegion(0, 9, 1, "source", leased=True), 1)
    leases.serve(Destroy((QpName(0, 0),), (RegionName(0, 1),)), 2)
    worker.there |= {QpName(0, 0): True, RegionName(0, 1): True}
    leases.left(1)
    assert worker.left() == [QpName(0, 0), RegionName(0, 1)]


def test_a_leased_rank_goes_after_its_queue_pairs():
    asked = []

    def serve(request):
        asked.append(request)
        return {"cq": 7, "qpn": 5}

    leases = Leases(serve)
    leases.serve(CreateCq(1, leased=True), 1)
    leases.serve(CreateQp(1, 2, leased=True, cq=7), 1)
    leases.left(1)
    assert asked[2:] == [Destroy(qps=(QpName(1, 5),)), DestroyRank(1, 7)]
