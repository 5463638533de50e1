// Stores a finding of a detector, with its threads, its lines and the name of the element, unless it is allowed.
#include <map>
#include <set>
#include <stdio.h>
#include <tuple>
#include "detector.h"
#include "findings.h"
#include "operations.h"
#include "queue.h"

namespace gridstride {

// The findings that the user allows: (code, kernel, line). A line is looked up once per access in the code, (address of
// the image, location), because that takes milliseconds.
static std::set<std::tuple<std::string, std::string, int>> allowed_findings;
static std::map<std::pair<uintptr_t, uint32_t>, int> line_of_access;

bool Detector::is_allowed(Code code, const Access &access) const {
    if (allowed_findings.empty()) return false;
    const auto [entry, is_new] = line_of_access.insert({{image.base, access.location}, 0});
    if (is_new) {
        Location location = {};
        set_line(access, location);
        entry->second = location.line;
    }
    return gridstride::is_allowed(code, *w->launch, entry->second);
}
bool is_allowed(Code code, const Launch &launch, int line) {
    if (allowed_findings.empty()) return false;
    return allowed_findings.count({Field("code", code).string, base_name(launch.kernel), plain_line(line)});
}
void Detector::report_finding(Code code, Fields fields, const Access &access, const Access *other,
    const DeferredRace *deferred) {
    finish_pending_writes();                              // an earlier race of this thread is reported first
    if (is_allowed(code, access)) return;
    if (claim_finding(code, fields)) describe(current_finding, access, other, deferred);
    end_launch();
}
void Detector::describe(Finding &finding, const Access &access, const Access *other,
    const DeferredRace *deferred) const {
    Field::copy(finding.kernel, base_name(w->launch->kernel).c_str());
    finding.has_thread = 1;
    const auto block_of = [](const Access &a, uint32_t first_block) {
        return a.thread / max_threads - 1 - first_block;
    };
    set_thread(*w, int(access.thread % max_threads), block_of(access, w->first_block), finding.location);
    set_line(access, finding.location);
    if (deferred) finding.call_line = find_call_in_kernel(*w, finding.location, deferred->frames, deferred->depth);
    else if (access.time >= now || access.time == not_completed)
        finding.call_line = find_call_in_kernel(*w, finding.location);
    if (!other) return;
    finding.has_other = 1;
    const Operation *earlier_operation = has_unordered_operations && other->time < launch_start
        ? operations.unordered(*other) : nullptr;
    const RunningLaunch *running = w->running_launch;
    if (const RunningLaunch *other_launch = launch_of_block(other->thread / max_threads)) running = other_launch;
    const Launch &launch_of_access = *running->launch;
    set_thread(earlier_operation ? earlier_operation->grid : launch_of_access.grid, earlier_operation
        ? earlier_operation->block : launch_of_access.block, int(other->thread % max_threads),
        block_of(*other, earlier_operation ? earlier_operation->first_block : running->first_block), finding.other);
    const bool is_of_other_launch = running != w->running_launch;
    set_line(*other, finding.other, earlier_operation ? earlier_operation->image
        : is_of_other_launch ? running->checks.image.base : image.base);
    if (device_count() > 1) finding.other.device = earlier_operation ? earlier_operation->device : running->device;
}

void Detector::set_line(const Access &access, Location &location, uintptr_t base) const {
    if (const int line = line_of(access.location)) set_source_line(location, line);
    else locate(pc_of(access.location, base), location);
}

ElementName Detector::element_name(uintptr_t address, unsigned owner, const Allocation *allocation) const {
    ElementName element = {};
    if (allocation) {
        Field::copy(element.name, allocation->name_or_default());
        element.rank = 1;
        element.at[0] = allocation->index_of(address);
    } else if (owner) {
        const Worker &holder = holder_of(address);
        const SharedArray &array = holder.arrays[owner - 1];
        Field::copy(element.name, array.name);
        element.rank = array.shape.rank;
        array.index_of(address - reinterpret_cast<uintptr_t>(holder.shared), element.at);
    }
    return element;
}
}

// Sets the findings that are not reported, one per line: "code kernel line".
extern "C" GRIDSTRIDE_API void gridstride_allow_findings(const char *lines) {
    using namespace gridstride;
    allowed_findings.clear();
    line_of_access.clear();
    char code[64], kernel[256];
    for (int line, length; sscanf(lines, "%63s %255s %d%n", code, kernel, &line, &length) == 3; lines += length)
        allowed_findings.insert({code, kernel, line});
}
