"""Makes PyPI's torchvision importable beside a CPU torch, in the environment whose Python runs this.

That wheel is a CUDA build whose `_C.so` does not load here, and `import torchvision` ends with «operator
torchvision::nms does not exist». Declaring the operators, which nothing calls, lets the rest import.
"""

import sysconfig
from pathlib import Path

MARK = "# operators declared for a CPU torch"
DECLARE = f"""import torch
{MARK}
try:
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for _name in ("nms", "qnms"):
        _declared.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
except Exception:
    pass
"""

path = Path(sysconfig.get_paths()["purelib"]) / "torchvision" / "_meta_registrations.py"
source = path.read_text()
if MARK not in source and "cpu-shim" not in source:
    path.write_text(source.replace("import torch\n", DECLARE, 1))
