// Runs a program and reads its output line by line. No shell is involved, so paths need no quoting.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "platform.h"

namespace gridstride {

struct ProgramOutput::State {
    FILE *stream = nullptr;
    pid_t child = -1;
    char *line = nullptr;
    size_t size = 0;
};

ProgramOutput::ProgramOutput(const std::vector<std::string> &command) : state(new State) {
    int pipe_ends[2];
    if (pipe(pipe_ends)) return;
    for (int pipe_end : pipe_ends) fcntl(pipe_end, F_SETFD, FD_CLOEXEC);
    std::vector<char *> arguments;
    for (auto &word : command) arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&state->child, arguments[0], &actions, nullptr, arguments.data(), environ)) state->child = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    if (state->child < 0 || !(state->stream = fdopen(pipe_ends[0], "r"))) close(pipe_ends[0]);
}
ProgramOutput::~ProgramOutput() {
    if (state->stream) fclose(state->stream);
    while (state->child > 0 && waitpid(state->child, nullptr, 0) < 0 && errno == EINTR) {}
    free(state->line);
    delete state;
}
char *ProgramOutput::next() {
    if (!state->stream || getline(&state->line, &state->size, state->stream) < 0) return nullptr;
    state->line[strcspn(state->line, "\n")] = 0;
    return state->line;
}
}
