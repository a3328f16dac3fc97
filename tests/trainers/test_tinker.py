import numpy as np
from tinker import Datum, ModelInput, TensorData

from tests.trainers.rows import PLAIN, rows


def test_a_row_is_a_datum_once_the_advantages_are_known() -> None:
    (row,) = rows("tinker", PLAIN)
    inputs = {name: TensorData(**tensor) for name, tensor in row["loss_fn_inputs"].items()}
    advantages = TensorData.from_numpy(0.5 * inputs["mask"].to_numpy())
    datum = Datum(ModelInput(**row["model_input"]), inputs | {"advantages": advantages})
    assert datum.model_input.length == 10
    assert datum.loss_fn_inputs["target_tokens"].to_numpy().dtype == np.int64
    assert datum.loss_fn_inputs["advantages"].to_numpy().tolist() == [0, 0, 0, 0.5, 0.5, 0.5, 0, 0, 0.5, 0.5]
