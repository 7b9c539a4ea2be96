/* What tests put between: failures of calls, features that are missing, other devices. The functions in hip.c that
 * stand for them do nothing and are weak; a file with others makes a stand-in of the library. */
#ifndef HIP_HOOKS_H
#define HIP_HOOKS_H

#include <stdbool.h>

int injected_failure(const char *function);                    /* at the beginning of each call: an error, or 0 */
bool lacks(const char *feature);                               /* `wait-value`, `signal-memory`, … */
long long told_number(const char *name, long long otherwise);  /* DEVICES, MEMORY, VERSION, UNITS, BUS, CLOCK */
const char *told_text(const char *name, const char *otherwise); /* ARCH, DEVICE */

void break_device(int error); /* every later call fails with it, until ckwatch_emulator_clear */

#endif
