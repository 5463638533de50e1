"""`cuda.In(x)`, `cuda.Out(x)` and `cuda.InOut(x)`: hints that select the copies a launch makes."""

from .host import DeviceArray, device_array_like, to_device

__all__ = ['ArgHint', 'In', 'InOut', 'Out', 'make_copies', 'wrap_arg']


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


def wrap_arg(value, default=InOut):
    "Return an argument with a hint: its own if it has one, else the default"
    return value if isinstance(value, ArgHint) else default(value)


def make_copies(
    args,  # of a launch
):  # (the arguments without hints, a function that copies back after the launch)
    "Copy the arguments of a launch to the device as their hints request"
    arguments, copies = [], []
    for argument in args:
        if not isinstance(argument, ArgHint):
            arguments.append(argument)
        elif isinstance(argument, InOut) or isinstance(argument.value, DeviceArray):
            arguments.append(argument.value)
        elif isinstance(argument, In):
            arguments.append(to_device(argument.value))
        else:
            arguments.append(device_array_like(argument.value))
            copies.append((arguments[-1], argument.value))
    return arguments, lambda: [device.copy_to_host(host) for device, host in copies]
