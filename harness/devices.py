"""Where models run: the devices and cores of this machine."""

import os
import re

from harness.errors import RequestError, shown


def check_device(device: str, executor: object = None) -> None:
    """Refuse a device that is not there; the machines of an executor that runs trials `elsewhere` may have it.

    Raises:
        RequestError: no such device.
    """
    if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:[0-9]{1,4})?", device):
        raise RequestError(f"there is no device {shown(device)}; choose cpu or cuda")
    if device != "cpu" and not getattr(executor, "elsewhere", False):
        import torch

        available = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(device.partition(":")[2] or 0) >= available:
            raise RequestError(f"the device {device!r} is not available to torch {torch.__version__}; use --device cpu")


def default_jobs(device: str = "cpu") -> int:
    """Trials at a time, if nobody says: one for each core that this process may use; one on an accelerator."""
    if device != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
