// Loads a module with static constructors in a child process first. The constructors run while the loader holds its
// lock, so this process could not continue after a crash in one of them. The child writes its finding to a pipe.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#include "findings.h"
#include "output.h"
#include "signals.h"

namespace gridstride {

// If it fails, Python reports the reason when it loads the module.
static void load_module(void *) { dlopen(module_in_child, RTLD_NOW | RTLD_LOCAL); }
[[noreturn]] static void load_in_child(const char *path, int result) {
    for (int stream : {1, 2}) dup2(open("/dev/null", O_WRONLY), stream);        // otherwise output would appear twice
    gridstride_send_output_to(nullptr), gridstride_send_warnings_to(nullptr); // Python must not run in the child
    module_in_child = path;
    run_guarded(load_module, nullptr);
    const ssize_t written = write(result, &current_finding, sizeof current_finding);
    _exit(written == ssize_t(sizeof current_finding) ? 0 : 1);
}
}

extern "C" int gridstride_load_in_child(const char *path, int *child_pid) {
    int pipe_ends[2];
    if (pipe(pipe_ends)) return -1;
    for (int pipe_end : pipe_ends) fcntl(pipe_end, F_SETFD, FD_CLOEXEC);
    if (!(*child_pid = fork())) gridstride::load_in_child(path, pipe_ends[1]);
    close(pipe_ends[1]);
    return pipe_ends[0];
}
