// Launches: validation, Workers, and the memory that they need.
#pragma once
#include <string>
#include "worker.h"

namespace gridstride {

void sync_registered_memory(bool to_device); // copies registered host memory to the device, or back
bool is_newest_host_code(const void *pc);                  // whether it is in the module that Python called last
std::string parameters_of(const Launch &);                 // parameter names of its kernel, `x,out,n`; "": unknown
Worker &this_worker();                 // of this OS thread
size_t max_dynamic_shared_of(const Launch &); // bytes of dynamic shared memory that its kernel may have
// Stores the finding for a launch that CUDA rejects; returns CUDA's error code.
int reject_launch(const Launch &, Code, Fields, int error = 1);
void reject_cooperative_launch(const Launch &, size_t static_bytes);
bool prepare_launch(const Launch &);   // names its arrays; false: it was rejected
void begin_launches(const Launch &first);      // enables device code, signals and the time limit, and
void end_launches();                   // disables them after all launches that run together
Worker *new_worker();
char *map_shared_memory();             // of a block; nullptr if there is no memory
void unmap_shared_memory(char *);
// The leading Workers of the clusters of this OS thread, its own first; after a launch, a few are kept for the next.
std::vector<Worker *> &cluster_leaders();
void release_leaders();
}
