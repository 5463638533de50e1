#include "state.h"
#include "detector.h"
#include "memory.h"
#include "worker.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace gridstride {

Memory memory;
thread_local Worker *worker = nullptr;
Detector detector;

gridstride_options options = {0, 0, 0, 0, 60};
Finding found, warned;
std::atomic<bool> stop{false};
thread_local sigjmp_buf *guard = nullptr;
const Names *all_names = nullptr;
int error_code = 0;
bool launching = false;

std::string base_name(const char *text) {
    std::string s(text);
    while (!s.empty() && (s[0] == '(' || s[0] == '&' || s[0] == ' ')) {
        const size_t close = s.find(')');
        const bool cast = s[0] == '(' && close != std::string::npos && close + 1 < s.size() && s.find('*') < close;
        s = s.substr(cast ? close + 1 : 1);
    }
    s = s.substr(0, s.find_first_of("<,) "));
    const size_t colon = s.rfind("::");
    return colon == std::string::npos ? s : s.substr(colon + 2);
}
}
