"""The checker for kernels outside the course: the command `gridstride`, and a plugin of pytest.

The modules, in the best order to read them: `finding` (a finding of any dialect as one record), `source_map` (finds the
lines of a compiled text in the files of a program), `recorder` (records the findings of all launches of a process),
`schedules` (orders of blocks and threads), `worker` (runs one file under one schedule), `workers` (the processes of
many schedules, forked from one that has imported torch), `check` (runs files under many schedules), `formats` (text,
JSON, SARIF, annotations of GitHub), `pages` (the page of a message, in the terminal), `command_line` (what they
share), `run`, `assembly` and `timing` (the commands `run`, `asm` and `bench`), `cuda_coverage` (which lines of CUDA C
were executed), `line_coverage` (which lines of kernels were executed), `pytest_plugin`, `sandbox` (runs a command on a
source of another author), `mcp_server` (offers the commands to coding agents), `official_mcp` (the same by the `mcp`
package).
"""
