"""Reports code that nvcc rejects but a host compiler accepts, and makes compiler errors readable.

Modules that check the learner's text: `host_device_check` (calls between host and device), `kernel_signature_check`
(declarations of kernels), `uninitialized` (variables that are assigned on one path only), `host_variables` (host
variables in device code), `static_initialization` (code that runs when a module is loaded), `library` and `libc` (which
functions of the standard libraries device code may call). With the compiler's help: `callers` (marks host functions as
deprecated, so that the compiler warns of their uses), `inlined` (selects functions to inline). Modules that read the
compiler's log: `compile_errors` (formats errors for a learner), `unsupported_api` (CUDA functions that the emulator
does not have).
"""
