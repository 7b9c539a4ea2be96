/* Launches of which a sample of the workgroups is executed, and who wrote what is to be compared. */
#ifndef SAMPLING_H
#define SAMPLING_H

#include "access.h"
#include "samples.h"

/* The numbers of the workgroups that are executed, ascending: the corners of the grid, those between them along each
 * dimension, and one out of each of equal shares. At most `wanted` and 27; to be freed. */
uint64_t *sampled_workgroups(const uint32_t grid[3], uint64_t wanted, uint64_t seed, uint64_t *count);
uint64_t mixed(uint64_t x); /* splitmix64 */

/* Accesses of lanes before memory changes, of reads when it was read. False: the sample has ended the launch. */
bool sample_read(Wave *w, const Region *region, const Places *p, uint64_t lanes, unsigned bytes);
bool sample_read_at(Wave *w, const Region *region, uint64_t at, unsigned bytes);
bool sample_store(Wave *w, const Places *p, unsigned bytes);
bool sample_write_at(Wave *w, const Region *region, uint64_t at, unsigned bytes);
bool sample_atomic(Wave *w, const Places *p, unsigned bytes);
bool sample_atomic_at(Wave *w, const Region *region, uint64_t at, unsigned bytes);

bool is_watching(void); /* a place, see samples.h */
void watch_store(Wave *w, const Instruction *i, const Places *p, uint64_t lanes, unsigned bytes);
void watch_write_at(Wave *w, const Instruction *i, uint64_t at, unsigned bytes, int lane);
void report_watched(Launch *launch); /* when all workgroups of the launch have ended */

#endif
