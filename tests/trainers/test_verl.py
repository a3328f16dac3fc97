from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

from tests.storage.formats.trainers.back import EXPERTS
from tests.trainers.rows import MOE, PLAIN, rows


def test_a_row_is_an_agent_loop_output() -> None:
    (row,) = rows("verl", PLAIN)
    told = AgentLoopOutput(**row).as_dict()
    assert told["prompts"].tolist() == [1, 2, 3, 4]
    assert told["responses"].tolist() == [10, 11, 12, 5, 6, 13, 14]
    assert told["response_mask"].tolist() == [1, 1, 1, 0, 0, 1, 1]
    assert told["rollout_log_probs"].tolist() == [-0.5, -0.25, -0.125, 0, 0, -1, -2]
    assert told["rm_scores"].tolist() == [0, 0, 0, 0, 0, 0, 0.75]
    assert told["extra_fields"]["session_id"] == "math-17"


def test_verl_pads_routed_experts_to_the_sequence() -> None:
    (row,) = rows("verl", MOE)
    experts = AgentLoopOutput(**row).as_dict()["routed_experts"]
    assert experts[:-1].tolist() == EXPERTS.tolist()
    assert not experts[-1].any()
