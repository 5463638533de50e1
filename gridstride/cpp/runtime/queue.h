// Operations of several devices: launches and copies are queued until the host waits, and then run together.
#pragma once
#include <memory>
#include <vector>
#include "operations.h"
#include "residents.h"

namespace gridstride {

// Returns whether launches and copies are queued, instead of being run immediately.
bool is_queueing();
// Adds a launch. `arguments_owner` keeps its arguments alive; `begin` is called before it runs.
void queue_launch(const Launch &, bool (*begin)(), std::shared_ptr<void> arguments_owner);
// Runs the operations that this clock contains, and those before them; null: all operations.
void run_queue(const StreamClock *needed);
void discard_queue();
bool is_queue_empty();
extern bool is_queue_deferred;             // whether operations stay in the queue at the end of a call from Python

// For the scheduler of blocks (residents.cpp):

// Runs queued copies and adds queued launches to the running ones, if the operations before them have ended: only those
// that the host waits for, or, if the running launches are stalled, all of them. Returns whether there are any.
bool admit_operations(std::vector<RunningLaunch *> &, bool is_stalled);
void enter_operation(RunningLaunch &); // makes its device, variables and operation the current ones
void end_operation(RunningLaunch &);
int device_of_block(uint32_t block_id);  // returns the device of a block of the joint run
const RunningLaunch *launch_of_block(uint32_t block_id);      // null: it belongs to no launch

// Measures how long all blocks have been waiting. Another host thread may yet launch the kernel that they wait for.
class Stall {
    double since = 0;                  // seconds_now(); 0: not all blocks wait
    int num_checks = 0;                // since then

public:
    void end() { since = 0; }
    bool exceeds_limit(const std::vector<Worker *> &suspended_leaders);
};
}
