/* The host's side of sampling.c. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>

/* Between the two, launches are executed in part. */
void begin_sample(void);
void end_sample(void);
const char *why_whole(void); /* what a sample must not do, in words; NULL where the sample is as good as the whole */
/* 1 for each byte that a kernel of the last sample has written. */
void sampled_bytes(uint64_t at, uint64_t size, uint8_t *bytes);

/* The place whose last writer is reported as a finding of the kind WRONG_RESULT; no place: 0 bytes. */
void watch_memory(uint64_t at, uint64_t bytes);

#endif
