from agent.core.completion import CompletionQueue, CompletionStatus, ImmediateArrived, ReceiveQueue, WritesDone


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
