"""`cuda.In(x)`, `cuda.Out(x)` and `cuda.InOut(x)`: which copies of an array of the host a launch makes."""

from .host import DeviceArray, device_array_like, to_device

__all__ = ['ArgHint', 'In', 'InOut', 'Out', 'make_copies']


class ArgHint:
    "An argument of a kernel with a hint on how to copy it"

    def __init__(self, value):
        self.value = value


class In(ArgHint):
    "A hint to copy to the device before the launch, but not back"


class Out(ArgHint):
    "A hint to copy back from the device after the launch; elements that the kernel does not write are undefined"


class InOut(ArgHint):
    "A hint to copy to the device and back, as for an array without a hint"


def make_copies(
    args,  # of a launch
):  # (the arguments without hints, what to do after the launch)
    "Make the copies that the hints of the arguments request"
    given, back = [], []
    for a in args:
        if not isinstance(a, ArgHint):
            given.append(a)
        elif isinstance(a, InOut) or isinstance(a.value, DeviceArray):
            given.append(a.value)
        elif isinstance(a, In):
            given.append(to_device(a.value))
        else:
            given.append(device_array_like(a.value))
            back.append((given[-1], a.value))
    return given, lambda: [d.copy_to_host(h) for d, h in back]
