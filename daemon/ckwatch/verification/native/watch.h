/* What a program is told while it runs: that a launch takes long, and that memory runs short. */
#ifndef WATCH_H
#define WATCH_H

#include "machine.h"

/* A program's first launch or allocation begins it, if its findings are reported when it ends. */
void begin_watch(void);
void launch_begins(const Launch *launch, uint64_t workgroups);
void launch_ends(const Launch *launch);

/* Ends the process in a sentence: what the checks keep of memory has no room. */
_Noreturn void end_without_memory(void);

void say_no_races(void); /* once: memory runs short */

/* ---- What it asks of others -------------------------------------------------------------------------------------- */
void append_report(void); /* hip.c: what has been found */
char *largest_allocation(void); /* memory.c: in words, with its checks; to be freed */
void forget_accesses(void); /* regions.c: from now on no races between workgroups are looked for */
uint64_t machine_memory(void); /* bytes, within the limit of a cgroup */
uint64_t resident_bytes(const void *memory, uint64_t size);
uint64_t bytes_of_checks(const Region *region); /* resident ones */

#endif
