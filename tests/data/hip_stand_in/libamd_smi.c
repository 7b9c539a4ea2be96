/* A stand-in for AMD's system management library in tests: one device at 0000:c1:00.0, whose table of metrics is the
 * content of the file HIP_STAND_IN_METRICS. All other functions, which the Python package wants to be there, are made
 * by the tests and say that they are not supported. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct version {
  uint32_t major, minor, release;
  char *build;
};

int amdsmi_init(uint64_t flags) { return flags == 2 ? 0 : 1; }
int amdsmi_shut_down(void) { return 0; }

int amdsmi_get_lib_version(struct version *version) {
  *version = (struct version){26, 1, 0, "stand-in"};
  return 0;
}

static int one(uint32_t *count, void **handles, uintptr_t handle) {
  if (handles) handles[0] = (void *)handle;
  *count = 1;
  return 0;
}

int amdsmi_get_socket_handles(uint32_t *count, void **handles) { return one(count, handles, 16); }

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
  (void)socket;
  return one(count, handles, 32);
}

int amdsmi_get_gpu_device_bdf(void *handle, uint64_t *address) {
  (void)handle;
  *address = 0xc1 << 8; /* function in 3 bits, device in 5, bus in 8, domain above */
  return 0;
}

int amdsmi_get_gpu_metrics_info(void *handle, void *metrics) {
  (void)handle;
  const char *name = getenv("HIP_STAND_IN_METRICS");
  FILE *file = name ? fopen(name, "rb") : NULL;
  if (!file) return 2; /* AMDSMI_STATUS_NOT_SUPPORTED */
  size_t size = fread(metrics, 1, 1 << 16, file);
  fclose(file);
  return size ? 0 : 2;
}
