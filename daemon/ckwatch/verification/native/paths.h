/* Missing waits on all paths of a kernel, executed or not. */
#ifndef PATHS_H
#define PATHS_H

#include "machine.h"

typedef struct MissingWaits {
  Finding *finding; /* they point into the code */
  uint32_t count;
} MissingWaits;

/* Those of the launch's kernel, which keeps them. To be called behind the launch: what was executed is known better. */
void report_missing_waits(Launch *launch);
void free_missing_waits(MissingWaits *waits);

#endif
