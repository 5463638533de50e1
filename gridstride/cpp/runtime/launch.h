// Launches: validation, Workers, and their memory.
#pragma once
#include <string>
#include "worker.h"

namespace gridstride {

void sync_registered_memory(bool to_device); // copies registered host memory to the device, or back
bool is_newest_host_code(const void *pc);                  // whether `pc` is in the module that Python called last
std::string parameters_of(const Launch &);                 // the kernel's parameter names, `x,out,n`; "": unknown
Worker &this_worker();                 // the Worker of this OS thread
size_t max_dynamic_shared_of(const Launch &); // the kernel's limit of dynamic shared memory, in bytes
// Stores the finding for a launch that CUDA rejects; returns the CUDA error code.
int reject_launch(const Launch &, Code, Fields, int error = 1);
void reject_cooperative_launch(const Launch &, size_t static_bytes);
bool prepare_launch(const Launch &);   // names the arrays of the launch; returns false if it is rejected
void begin_launches(const Launch &first);      // enables device code, signal handlers and the time limit
void end_launches();                   // disables them, after all launches that run together
Worker *new_worker();
char *map_shared_memory();             // maps the shared memory of a block; nullptr if that fails
void unmap_shared_memory(char *);
// The leaders of the clusters of this OS thread; the first is the thread's own Worker. After a launch, a few are kept.
std::vector<Worker *> &cluster_leaders();
void release_leaders();
}
