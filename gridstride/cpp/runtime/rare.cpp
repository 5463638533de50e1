// What runs rarely, and is compiled with less optimization because each user waits for it once: findings, crashes,
// memory, graphs and the end of modules.
#include "findings.cpp"
#include "report.cpp"
#include "signals.cpp"
#include "machine.cpp"
#include "addresses.cpp"
#include "device.cpp"
#include "graphs.cpp"
#include "unload.cpp"
#include "trial.cpp"
