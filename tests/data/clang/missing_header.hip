#include <hip/hip_runtime.h>
#include "deep.hpp"
#include "ck/no_such.hpp"
int x = undeclared;
