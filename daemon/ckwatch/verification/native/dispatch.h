/* Launches: what the command processor of a GPU does. */
#ifndef DISPATCH_H
#define DISPATCH_H

#include "code_object.h"

/* The apertures of flat addresses for LDS and scratch, as ROCr chooses them: no process has memory there. */
#define SHARED_APERTURE 0x1000000000000ull
#define PRIVATE_APERTURE 0x2000000000000ull

typedef struct {
  uint64_t executed;      /* instructions of all waves */
  uint64_t computed, all; /* workgroups */
  uint64_t whole_cost;    /* of all workgroups, by that of those which were computed */
  bool stopped;           /* by an unknown instruction, a trap, a wave that does not end */
} LaunchCounts;

/* Fills the hidden arguments of launch->kernarg: sizes of the grid and the like. */
void fill_hidden_arguments(const Launch *launch);
/* The dispatch packet, the queue and the barrier of a cooperative launch, for kernels that ask for them. */
enum { PACKET_BYTES = 64, QUEUE_BYTES = 256, GRID_SYNC_BYTES = 64 };
bool wants_grid_sync(const Launch *launch);
void fill_grid_sync(const Launch *launch, uint8_t *grid_sync);
bool wants_packet(const Kernel *kernel);
bool wants_queue(const Kernel *kernel);
void fill_packet(const Launch *launch, uint8_t *packet);
void fill_queue(uint8_t *queue);

/* Runs a launch to its end. */
void run_launch(Launch *launch, Choice choice, LaunchCounts *counts);

#endif
