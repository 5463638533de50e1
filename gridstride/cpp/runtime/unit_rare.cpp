// The sources that run rarely: findings, crashes, memory, graphs and the unloading of modules. They are compiled with
// less optimization, because every user waits for this compilation once.
#include "findings.cpp"
#include "program_output.cpp"
#include "report.cpp"
#include "signals.cpp"
#include "machine.cpp"
#include "addresses.cpp"
#include "device.cpp"
#include "devices.cpp"
#include "graphs.cpp"
#include "unload.cpp"
#include "transforms.cpp"
#include "load_in_child.cpp"
