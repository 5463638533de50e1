"""Reports what nvcc refuses but a C++ compiler for the host accepts, and makes compiler errors readable.

In the learner's text: `host_device_check` (what the host and the device may call), `kernel_signature_check` (what a
kernel may not be declared as), `uninitialized` (variables that are assigned on one path only), `host_variables`
(which device code may not read), `static_initialization` (whether code runs when a module is loaded). With the
compiler's help, by attributes whose uses it warns of: `callers`, `library` and `libc` (which functions of the
standard libraries device code may call), `inlined` (functions that are inlined into their callers).
In the compiler's log: `compile_errors` (for a learner), `unsupported_api` (functions of CUDA that the emulator lacks).
"""
