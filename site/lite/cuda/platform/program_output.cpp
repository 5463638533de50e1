// The only program that the runtime runs is addr2line, which JavaScript has.
#include <stdlib.h>
#include <string.h>
#include "platform.h"

extern "C" __attribute__((import_module("gridstride"), import_name("symbolize"))) int gridstride_js_symbolize(
    const char *command, size_t bytes, char **text);

namespace gridstride {

struct ProgramOutput::State {
    char *text = nullptr, *next = nullptr;
};
ProgramOutput::ProgramOutput(const std::vector<std::string> &command) : state(new State) {
    std::string words;
    for (const auto &word : command) words += word + '\n';
    if (gridstride_js_symbolize(words.data(), words.size(), &state->text)) state->next = state->text;
}
ProgramOutput::~ProgramOutput() {
    free(state->text);
    delete state;
}
char *ProgramOutput::next() {
    char *const line = state->next;
    if (!line || !*line) return nullptr;
    char *const end = strchr(line, '\n');
    state->next = end ? end + 1 : nullptr;
    if (end) *end = 0;
    return line;
}
}
