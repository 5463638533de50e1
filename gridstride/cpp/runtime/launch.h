// A launch: its blocks, over OS threads and in clusters.
#pragma once
#include <string>
#include "worker.h"

namespace gridstride {

void carry_registered(bool to_device); // the host's memory that kernels reach
bool is_newest_host_code(const void *pc);                  // of the function that Python called last
std::string parameters_of(const Launch &);                 // the names of its kernel's, `x,out,n`; "": not known
Worker &this_worker();                 // of this OS thread
size_t max_dynamic_of(const Launch &); // bytes of dynamic shared memory that its kernel may have
// a launch that no GPU would accept; returns CUDA's error
int refuse(const Launch &, Code, Fields, int error = 1);
void refuse_cooperative(const Launch &, size_t static_bytes);
Worker *new_worker();
// this OS thread's workers that lead a block or a cluster, its own the first; after a launch a few stay
std::vector<Worker *> &teams_of_thread();
void release_teams();
}
