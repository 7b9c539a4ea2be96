/* "Kernels" of the kernel ABI for tests: Y = X · W in f32, all row-major, computed by the host when the stand-in's
 * stream comes to it: device code would need a disassembler. One does what it should; each of the others fails in its
 * own way. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data);
extern int hipStreamSynchronize(void *stream);
extern void ckwatch_emulator_fault(void);

struct call {
  const float *x, *w;
  float *y;
  int m, n, k, ldx, ldw, ldy;
  uint8_t *workspace;
};

static void compute(const struct call *call) {
  for (int row = 0; row < call->m; row++)
    for (int column = 0; column < call->n; column++) {
      float sum = 0;
      for (int i = 0; i < call->k; i++) sum += call->x[row * call->ldx + i] * call->w[i * call->ldw + column];
      call->y[row * call->ldy + column] = sum;
    }
}

static void run_right(void *data) {
  struct call *call = data;
  memset(call->workspace, 1, 512);
  compute(call);
  free(call);
}

static void run_wrong(void *data) {
  struct call *call = data;
  compute(call);
  call->y[0] += 1000.0f;
  free(call);
}

static void run_past_the_end(void *data) {
  struct call *call = data;
  compute(call);
  call->y[(call->m - 1) * call->ldy + call->n] = 1.0f;
  free(call);
}

/* Far from any buffer, which a GPU tells. */
static void run_trespassing(void *data) {
  free(data);
  ckwatch_emulator_fault();
}

static void run_nothing(void *data) { free(data); }

static void run_once_so(void *data) {
  static int times;
  struct call *call = data;
  compute(call);
  call->y[1] *= 1.0f + 1e-6f * (float)(times++ % 7);
  free(call);
}

static void run_segv(void *data) {
  (void)data;
  fprintf(stderr, "about to read where nothing is\n");
  raise(SIGSEGV);
}

static void run_abort(void *data) {
  (void)data;
  fprintf(stderr, "Memory access fault by GPU node-1 (Agent handle: 0x55d0c0) on address 0x7f0000001000. "
                  "Reason: Page not present or supervisor privilege.\n");
  abort();
}

static void run_for_ever(void *data) {
  (void)data;
  for (;;) pause();
}

#define PARAMETERS                                                                                                 \
  const float *x, const float *w, float *y, int32_t m, int32_t n, int32_t k, int32_t ldx, int32_t ldw, int32_t ldy, \
      size_t *workspace_size, uint8_t *workspace, void *stream
#define ARGUMENTS x, w, y, m, n, k, ldx, ldw, ldy, workspace_size, workspace, stream

static int launch(void (*function)(void *), int status, PARAMETERS) {
  if (status) return status;
  if (workspace_size) {
    *workspace_size = 512;
    return 0;
  }
  struct call *call = malloc(sizeof *call);
  *call = (struct call){x, w, y, m, n, k, ldx, ldw, ldy, workspace};
  return hipLaunchHostFunc(stream, function, call);
}

#define KERNEL(name, function, status) \
  EXPORT int name(PARAMETERS) { return launch(function, status, ARGUMENTS); }

KERNEL(right, run_right, 0)
KERNEL(wrong, run_wrong, 0)
KERNEL(past_the_end, run_past_the_end, 0)
KERNEL(trespasses, run_trespassing, 0)
KERNEL(unwritten, run_nothing, 0)
KERNEL(nondeterministic, run_once_so, 0)
KERNEL(crashes, run_segv, 0)
KERNEL(faults, run_abort, 0)
KERNEL(never_ends, run_for_ever, 0)
KERNEL(refused, run_nothing, -23)
KERNEL(fails, run_nothing, 7)

/* Waits for its own launch, as host code that copies from the device does: a closed gate would never open. */
EXPORT int waits(PARAMETERS) {
  int status = right(ARGUMENTS);
  return status || workspace_size ? status : hipStreamSynchronize(stream);
}
