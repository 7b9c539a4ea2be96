/* Failures, missing features and other devices for the emulator's libamdhip64: with this file the library is a stand-in
 * for AMD's, for tests on machines without a GPU. No time measured on it means anything.
 *
 * Environment:
 *   HIP_STAND_IN_FAIL     calls that fail, `FUNCTION#N=ACTION` separated by `;`. N counts the calls of this function
 *                         from 1, `*` means each; ACTION is a hipError_t, or `abort` (as ROCm's runtime ends a process
 *                         whose kernel has read nowhere), `gpu-hang`, `segv`, `hang`.
 *   HIP_STAND_IN_WITHOUT  what it shall not have: `wait-value`, `signal-memory`, `host-memory`, `fence-flag`, and
 *                         `opening`: a stream that waits for a value never goes on
 *   HIP_STAND_IN_DEVICES, HIP_STAND_IN_DEVICE (its name), HIP_STAND_IN_ARCH, HIP_STAND_IN_MEMORY (bytes),
 *   HIP_STAND_IN_VERSION
 */
#include "hip_hooks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_FAULT = 700, FIRST_OTHER = 800 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
  char name[64];
  int calls;
} counted[64];

static int count_call(const char *name) {
  for (int i = 0; i < 64; i++) {
    if (!counted[i].name[0]) strncpy(counted[i].name, name, 63);
    if (strcmp(counted[i].name, name) == 0) return ++counted[i].calls;
  }
  return 0;
}

static int act(const char *action) {
  if (strncmp(action, "abort", 5) == 0) {
    fprintf(stderr, "Memory access fault by GPU node-1 (Agent handle: 0x55d0c0) on address 0x7f0000001000. "
                    "Reason: Page not present or supervisor privilege.\n");
    abort();
  }
  if (strncmp(action, "gpu-hang", 8) == 0) {
    fprintf(stderr, "HW Exception by GPU node-1 (Agent handle: 0x55d0c0) reason :GPU Hang\n");
    abort();
  }
  if (strncmp(action, "segv", 4) == 0) raise(SIGSEGV);
  if (strncmp(action, "hang", 4) == 0)
    for (;;) pause();
  int error = atoi(action);
  if (error >= FIRST_FAULT && error < FIRST_OTHER) break_device(error); /* as a fault of a kernel does */
  return error;
}

int injected_failure(const char *name) {
  pthread_mutex_lock(&lock);
  int call = count_call(name);
  pthread_mutex_unlock(&lock);
  size_t length = strlen(name);
  for (const char *rule = getenv("HIP_STAND_IN_FAIL"); rule && *rule;) {
    if (strncmp(rule, name, length) == 0 && rule[length] == '#') {
      const char *which = rule + length + 1;
      const char *action = strchr(which, '=');
      if (action && (*which == '*' || atoi(which) == call)) return act(action + 1);
    }
    rule = strchr(rule, ';');
    if (rule) rule++;
  }
  return 0;
}

bool lacks(const char *feature) {
  const char *list = getenv("HIP_STAND_IN_WITHOUT");
  size_t length = strlen(feature);
  for (; list && *list; list += *list ? 1 : 0) {
    size_t word = strcspn(list, ",");
    if (word == length && strncmp(list, feature, length) == 0) return true;
    list += word;
    if (!*list) break;
  }
  return false;
}

long long told_number(const char *name, long long otherwise) {
  static const struct {
    const char *name;
    long long value;
  } own[] = {{"MEMORY", 1LL << 30}, {"UNITS", 110}, {"BUS", 0xc1}, {"CLOCK", 1}};
  char variable[64];
  snprintf(variable, sizeof variable, "HIP_STAND_IN_%s", name);
  const char *text = getenv(variable);
  if (text && *text) return atoll(text);
  for (size_t n = 0; n < sizeof own / sizeof *own; n++)
    if (strcmp(own[n].name, name) == 0) return own[n].value;
  return otherwise;
}

const char *told_text(const char *name, const char *otherwise) {
  bool is_device = strcmp(name, "DEVICE") == 0;
  if (!is_device && strcmp(name, "ARCH") != 0) return otherwise;
  const char *told = getenv(is_device ? "HIP_STAND_IN_DEVICE" : "HIP_STAND_IN_ARCH");
  return told ? told : is_device ? "stand-in for HIP in tests (host memory, no GPU)" : "gfx90a";
}

/* The tests' own calls; hip.map lets names like these out. */
#define EXPORT __attribute__((visibility("default")))
extern void ckwatch_emulator_clear(void);

EXPORT void ckwatch_emulator_count_from_one(void) {
  ckwatch_emulator_clear();
  pthread_mutex_lock(&lock);
  memset(counted, 0, sizeof counted);
  pthread_mutex_unlock(&lock);
}
EXPORT void ckwatch_emulator_fault(void) { break_device(FIRST_FAULT); }
