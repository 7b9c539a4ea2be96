/* Functions of AMD's library that are not emulated: a program that has them in it starts, and hears of it where it calls one.
 * Those that other files define take the place of these. */
#include "hip.h"

#define EXPORTED(name)                         \
  __attribute__((weak)) EXPORT int name(void) { \
    ENTER(name);                               \
    REFUSE(#name " is not emulated");          \
  }
#include "hip_exports.inc"
