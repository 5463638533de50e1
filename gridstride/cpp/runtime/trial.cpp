// A module whose source has static constructors is loaded by a child process first. The constructors run while the
// loader holds its lock, so this process could not continue after a crash in one. The child writes its findings to a
// pipe.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
#include "findings.h"
#include "output.h"
#include "signals.h"

namespace gridstride {

// why it cannot, Python says later
static void load_tried(void *) { dlopen(trial_module, RTLD_NOW | RTLD_LOCAL); }
[[noreturn]] static void load_in_child(const char *path, int result) {
    for (int stream : {1, 2}) dup2(open("/dev/null", O_WRONLY), stream);        // what is printed would be there twice
    gridstride_send_output_to(nullptr), gridstride_send_warnings_to(nullptr); // Python's: it is not at work here
    trial_module = path;
    guarded(load_tried, nullptr);
    const ssize_t written = write(result, &current_finding, sizeof current_finding);
    _exit(written == ssize_t(sizeof current_finding) ? 0 : 1);
}
}

extern "C" int gridstride_try_load(const char *path, int *child) {
    int ends[2];
    if (pipe(ends)) return -1;
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    if (!(*child = fork())) gridstride::load_in_child(path, ends[1]);
    close(ends[1]);
    return ends[0];
}
