import pytest

from agent.core.completion import (
    MAX_RECEIVES,
    CompletionQueue,
    CompletionStatus,
    ImmediateArrived,
    ReceiveQueue,
    WritesDone,
)
from agent.core.errors import ConfigError


def test_completions_are_taken_in_order_and_once():
    queue = CompletionQueue()
    done = WritesDone(1, 0, 3, 30, CompletionStatus.SUCCESS)
    arrived = ImmediateArrived(1, 7, 0xAB, 10)
    queue.add(done)
    queue.add(arrived)
    assert len(queue) == 2
    assert queue.poll(1) == [done]
    assert queue.poll() == [arrived]
    assert queue.poll() == []


def test_receives_are_used_oldest_first():
    receives = ReceiveQueue()
    receives.post(5, 3)
    assert (len(receives), receives.next_wr_id) == (3, 8)
    assert receives.take() == 5
    assert receives.flush() == [6, 7]
    assert receives.take() is None


def test_no_more_receives_than_may_wait():
    """A number such as 2**31 would take all memory of the machine."""
    receives = ReceiveQueue()
    for count in (-1, 0, MAX_RECEIVES + 1, 2**31):
        with pytest.raises(ConfigError, match=f"{count} receives cannot be posted: post 1 to {MAX_RECEIVES}"):
            receives.post(0, count)
    receives.post(0, MAX_RECEIVES - 1)
    with pytest.raises(ConfigError, match="2 receives cannot be posted: post 1 to 1"):
        receives.post(0, 2)
    assert len(receives) == MAX_RECEIVES - 1
