"""Miles' `Sample`, which is slime's; slime itself is on no registry."""

from miles.utils.types import Sample

from tests.trainers.rows import PLAIN, rows


def test_a_row_is_a_sample() -> None:
    (row,) = rows("slime", PLAIN)
    sample = Sample.from_dict(row)
    sample.validate()
    assert sample.status is Sample.Status.COMPLETED
    assert sample.effective_response_length == 5
    assert sample.metadata["group_id"] == "math"
