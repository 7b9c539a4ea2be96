#include <hip/hip_runtime.h>
extern int elsewhere(int);
extern "C" int run(int n) { return elsewhere(n); }
