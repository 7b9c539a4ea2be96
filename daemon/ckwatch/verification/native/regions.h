/* The regions of memory that the process has allocated, and which of their bytes nothing has written. */
#ifndef REGIONS_H
#define REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum { DEVICE_MEMORY, HOST_MEMORY, CODE_MEMORY, KERNEL_ARGUMENTS, HOST_CALLS, DEVICE_HEAP } RegionKind;

typedef struct RegionAccesses RegionAccesses; /* ordering.c */
void free_accesses(RegionAccesses *accesses);
void drop_accesses(RegionAccesses *accesses); /* and keep none from now on */
uint64_t resident_accesses(const RegionAccesses *accesses);
typedef struct RegionWriters RegionWriters; /* sampling.c */
void free_writers(RegionWriters *writers);
void sample_on_host(const void *address); /* before a copy from or to it, or a fill */

/* An allocation. Its bytes are the process's own: addresses of the device are addresses of the host. */
typedef struct {
  uint64_t base, size;
  RegionKind kind;
  uint8_t *undefined; /* NULL: all defined; else one byte for each byte of memory, 1 where nothing has written it, */
  _Atomic uint64_t undefined_from, undefined_to; /* all of them between these offsets */
  _Atomic(RegionAccesses *) accesses; /* NULL until a launch of several workgroups is checked */
  _Atomic(RegionWriters *) writers;   /* NULL until a kernel of which a sample is executed writes */
} Region;

void add_region(uint64_t base, uint64_t size, RegionKind kind);
bool remove_region(uint64_t base);
const Region *region_of(uint64_t address);      /* the one that holds this byte, or NULL; under the reader's lock */
const Region *nearest_region(uint64_t address); /* the one nearest to it, or NULL */
void mark_undefined(uint64_t address, uint64_t size, bool undefined);
/* The number of undefined bytes in a range, and the first of them in *first. */
uint64_t count_undefined(uint64_t address, uint64_t size, uint64_t *first);

#endif
