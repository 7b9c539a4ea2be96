#include "hip_hooks.h"

__attribute__((weak)) int injected_failure(const char *function) { (void)function; return 0; }
__attribute__((weak)) bool lacks(const char *feature) { (void)feature; return false; }
__attribute__((weak)) long long told_number(const char *name, long long otherwise) { (void)name; return otherwise; }
__attribute__((weak)) const char *told_text(const char *name, const char *otherwise) { (void)name; return otherwise; }
