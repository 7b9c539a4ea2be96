/* What happens before what between the workgroups of a launch: races in memory. */
#ifndef ORDERING_H
#define ORDERING_H

#include "access.h"
#include "atomics.h"

/* For a checked launch of that many workgroups, before the first begins and after the last has ended. */
void begin_ordering(Launch *launch, uint64_t workgroups, uint64_t threads);
void end_ordering(Launch *launch);
void begin_order(Workgroup *group, uint64_t n); /* the n-th of them */

/* Accesses of lanes within their regions: of reads when the values are there, of writes before memory changes, so that
 * nobody sees a value before what its writer has released. The workgroup has an order. */
void order_read(Wave *w, const Instruction *i, const Region *region, const Places *p, uint64_t lanes, unsigned bytes);
void order_scalar_read(Wave *w, const Instruction *i, const Region *region, uint64_t at, unsigned bytes);
void order_store(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned index);
void order_scalar_write(Wave *w, const Instruction *i, const Region *region, uint64_t at, unsigned bytes,
                        const void *values);
void order_stored(Wave *w); /* memory has changed */
/* Before and after memory has changed. */
void order_before_atomic(Wave *w, const Region *region, uint64_t at, Operation operation);
void order_atomic(Wave *w, const Instruction *i, const Region *region, uint64_t at, Operation operation, unsigned bytes,
                  bool changed, bool returns, int lane);

void order_wait(Wave *w);       /* no store of the wave is on its way */
void order_invalidate(Wave *w); /* what is read from here on is as new as what atomics have read */
Execute execute_write_back, execute_invalidate;
Execute execute_invalidate_and_count; /* as gfx12 does */

#endif
