/* Stands in for the emulator in tests of what calls it. It executes nothing: "kernels" are C functions of the host.
 * With CKWATCH_STAND_IN_FINDING a finding is told after each synchronization, with CKWATCH_STAND_IN_ERROR an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int error_of_launch, findings;

EXPORT int hipMalloc(void **address, size_t size) {
  *address = aligned_alloc(256, (size + 255) / 256 * 256);
  return *address ? 0 : 2;
}

EXPORT int hipFree(void *address) {
  free(address);
  return 0;
}

EXPORT int hipMemcpy(void *to, const void *from, size_t size, int kind) {
  if (kind != 1 && kind != 2) return 1;
  memcpy(to, from, size);
  return 0;
}

EXPORT int hipDeviceSynchronize(void) {
  if (getenv("CKWATCH_STAND_IN_FINDING")) findings = 1;
  if (getenv("CKWATCH_STAND_IN_ERROR")) error_of_launch = atoi(getenv("CKWATCH_STAND_IN_ERROR"));
  return 0;
}

EXPORT int hipGetLastError(void) {
  int error = error_of_launch;
  error_of_launch = 0;
  return error;
}

EXPORT const char *hipGetErrorName(int error) { return error == 719 ? "hipErrorLaunchFailure" : "hipErrorOutOfMemory"; }

/* Code objects are not loaded here. */
EXPORT int hipModuleLoadData(void) { return 2; }
EXPORT int hipModuleGetFunction(void) { return 2; }
EXPORT int hipModuleLaunchKernel(void) { return 2; }

EXPORT int ckwatch_emulator_reserve(void **address, uint64_t size) { return hipMalloc(address, size); }
EXPORT void ckwatch_emulator_mark_undefined(const void *address, uint64_t size) {
  (void)address;
  (void)size;
}
EXPORT void ckwatch_emulator_undefined(const void *address, uint64_t size, uint8_t *bytes) {
  (void)address;
  memset(bytes, 0, size);
}
EXPORT void ckwatch_emulator_set_checked(int value) { (void)value; }
EXPORT void ckwatch_emulator_set_traced(int value) { (void)value; }
EXPORT void ckwatch_emulator_set_judged(int value) { (void)value; }
EXPORT void ckwatch_emulator_hold_others(void *stream) { (void)stream; }
EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags) { return *stream = (void *)stream, (int)(flags & 0); }
EXPORT int hipStreamSynchronize(void *stream) { return stream ? 0 : 1; }
EXPORT void ckwatch_emulator_choose(uint32_t workgroups, uint64_t seed) {
  (void)workgroups;
  (void)seed;
}
EXPORT void ckwatch_emulator_counts(uint64_t *executed, uint64_t *workgroups, uint64_t *of_workgroups) {
  if (executed) *executed = 100;
  if (!workgroups) return;
  *workgroups = 1;
  *of_workgroups = getenv("CKWATCH_STAND_IN_OF") ? (uint64_t)atoi(getenv("CKWATCH_STAND_IN_OF")) : 1;
}
EXPORT void ckwatch_emulator_begin_sample(uint32_t workgroups, uint64_t seed) {
  (void)workgroups;
  (void)seed;
}
EXPORT const char *ckwatch_emulator_end_sample(void) { return getenv("CKWATCH_STAND_IN_NEEDS_WHOLE"); }
EXPORT void ckwatch_emulator_sampled(const void *address, uint64_t size, uint8_t *bytes) {
  (void)address;
  memset(bytes, 1, size);
}
EXPORT uint64_t ckwatch_emulator_whole_cost(void) { return 1000; }
EXPORT void ckwatch_emulator_watch(const void *address, uint64_t size) {
  (void)address;
  (void)size;
}
EXPORT void ckwatch_emulator_clear(void) { findings = 0; }
EXPORT const char *ckwatch_emulator_problem(void) { return getenv("CKWATCH_STAND_IN_PROBLEM"); }
EXPORT uint32_t ckwatch_emulator_finding_count(void) { return (uint32_t)findings; }
EXPORT char *ckwatch_emulator_finding(uint32_t n) { return n ? NULL : strdup(getenv("CKWATCH_STAND_IN_FINDING")); }
EXPORT void ckwatch_emulator_free(void *memory) { free(memory); }
