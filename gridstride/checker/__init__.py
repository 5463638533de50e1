"""The checker for kernels outside the course: the command `gridstride`, and a pytest plugin.

The modules, in reading order: `finding` (a finding of any dialect as one record), `baseline` (known findings that do
not fail a run), `source_map` (maps lines of compiled source to the files of a program), `recorder` (records the
findings of all launches of a process), `schedules` (orders of blocks and threads), `worker` (runs one file under one
schedule), `workers` (the processes of many schedules, forked from one that has imported torch), `check` (runs files
under many schedules), `formats` (text, JSON, SARIF, GitHub annotations), `pages` (the page of a message, in the
terminal), `command_line` (common helpers of the commands), `run`, `assembly` and `timing` (the commands `run`, `asm`
and `bench`), `cuda_coverage` (line coverage of CUDA C), `line_coverage` (line coverage of all kernels),
`pytest_plugin`, `sandbox` (runs a command on untrusted source), `mcp_server` (offers the commands to coding agents),
`official_mcp` (the same, with the `mcp` package).
"""
