// There is one module, with all addresses of code: the offsets of its calls.
#pragma once
struct Dl_info {
    const char *dli_fname;
    void *dli_fbase;
    const char *dli_sname;
    void *dli_saddr;
};
extern "C" char __data_end;
int dladdr(const void *, Dl_info *);
