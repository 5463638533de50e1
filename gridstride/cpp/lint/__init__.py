"""What nvcc refuses and a C++ compiler for the host does not, reported in nvcc's stead.

In the learner's text: `host_device_check` (what the host and the device may call), `kernel_signature_check` (what a
kernel may not be declared as), `uninitialized` (variables that are assigned on one path alone), `host_variables`
(which device code may not read), `static_initialization` (whether code runs when a module is loaded). With the
compiler's help, by marks in the text that it warns of: `callers`, `library` and `libc` (which functions of the
standard libraries a GPU has), `inlined` (functions that become part of their callers).
In the compiler's log: `compile_errors` (for a learner), `unsupported_api` (what CUDA has and the emulator has not).
"""
