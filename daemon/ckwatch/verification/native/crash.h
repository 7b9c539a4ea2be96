/* Where a thread is in the emulator, for a message when it crashes. */
#ifndef CRASH_H
#define CRASH_H

#include "machine.h"

typedef struct {
  const char *doing; /* "loading device code"; NULL elsewhere */
  const Wave *wave;  /* the one that is executed; NULL outside of launches */
} CrashPlace;
extern __thread CrashPlace crash_place;

void tell_of_crashes(void); /* from now on */

#endif
