/* A thread that looks at a program from outside: where its time goes, and whether it leaves the machine memory.
 *
 * Memory and what the checks keep of it are reserved, and taken as they are touched; touched everywhere, a dword takes
 * 33 bytes. When less than a sixteenth of the machine's memory is left, or of the cgroup's, races between workgroups are
 * given up, which keep 25 of them; when less than a 64th is, the process ends, before the system kills one of its choice.
 *
 * CKWATCH_EMULATOR_MEMORY is how many bytes the process may have, if the machine has more; CKWATCH_EMULATOR_PROGRESS_S
 * after how many seconds a line says what is at work, 10 by default. Others follow each three times as many.
 */
#include "watch.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "hip.h"

enum { EACH_MS = 20 };

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The number behind a label in a file, or its first one; `otherwise` where there is none. */
static uint64_t number_in(const char *path, const char *label, uint64_t otherwise) {
  FILE *file = fopen(path, "re");
  char line[256];
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) found = !strncmp(line, label, strlen(label));
  if (file) fclose(file);
  char *behind = NULL;
  uint64_t number = found ? strtoull(line + strlen(label), &behind, 10) : 0;
  return found && behind != line + strlen(label) ? number : otherwise;
}

static uint64_t resident_pages(void) {
  unsigned long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file && fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
  if (file) fclose(file);
  return pages;
}

typedef struct {
  uint64_t all, left, resident;
} Memory;

static void limit(Memory *m, uint64_t all, uint64_t used) {
  if (all >= m->all) return;
  uint64_t left = used < all ? all - used : 0;
  m->all = all;
  if (left < m->left) m->left = left;
}

static Memory memory_now(void) {
  static const struct { const char *limit, *used, *cached, *label; } cgroups[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file "},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
       "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file "},
  };
  Memory m = {.resident = resident_pages() * (uint64_t)sysconf(_SC_PAGESIZE)};
  m.all = number_in("/proc/meminfo", "MemTotal:", UINT64_MAX >> 10) << 10;
  m.left = number_in("/proc/meminfo", "MemAvailable:", UINT64_MAX >> 10) << 10;
  for (size_t n = 0; n < sizeof cgroups / sizeof *cgroups; n++) {
    uint64_t used = number_in(cgroups[n].used, "", 0), cached = number_in(cgroups[n].cached, cgroups[n].label, 0);
    limit(&m, number_in(cgroups[n].limit, "", UINT64_MAX), used > cached ? used - cached : 0);
  }
  const char *told = getenv("CKWATCH_EMULATOR_MEMORY");
  if (told && *told) limit(&m, (uint64_t)strtod(told, NULL), m.resident);
  return m;
}

uint64_t machine_memory(void) { return memory_now().all; }

uint64_t resident_bytes(const void *memory, uint64_t size) {
  enum { PAGES = 1 << 16 };
  static unsigned char is_there[PAGES]; /* of the one thread that asks */
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = (uint64_t)(uintptr_t)memory & ~(page - 1), count = 0;
  for (uint64_t end = (uint64_t)(uintptr_t)memory + size; from < end; from += PAGES * page) {
    uint64_t pages = (end - from + page - 1) / page < PAGES ? (end - from + page - 1) / page : PAGES;
    if (mincore((void *)(uintptr_t)from, pages * page, is_there)) continue;
    for (uint64_t n = 0; n < pages; n++) count += is_there[n] & 1;
  }
  return count * page;
}

static const double GIB = 1 << 30;

_Noreturn void end_without_memory(void) {
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&once); /* for ever */
  Memory m = memory_now();
  char *largest = largest_allocation();
  fflush(stdout);
  fprintf(stderr, "emulated %s: out of memory, the program has ended here: it has %.1f GiB of %.1f GiB, and %.1f GiB are left; %s. "
                  "Run it on a smaller problem, or where there is more memory.\n",
          device()->name, (double)m.resident / GIB, (double)m.all / GIB, (double)m.left / GIB, largest);
  append_report();
  _exit(1);
}

void say_no_races(void) {
  static atomic_bool said;
  if (!atomic_exchange(&said, true))
    fprintf(stderr, "emulated %s: little memory is left: from here on races between workgroups are not looked for\n", device()->name);
}

static void look_at_memory(void) {
  static bool is_given_up;
  Memory m = memory_now();
  if (m.resident < m.all / 4 || m.left >= m.all / 16) return; /* if little is left, not this process may have taken it */
  if (!is_given_up) {
    is_given_up = true;
    say_no_races();
    forget_accesses();
    m = memory_now();
  }
  if (m.left < m.all / 64) end_without_memory();
}

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const Launch *running; /* the last that has begun, of these */
static uint64_t running_workgroups, launches_ended;
static double began_s;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void launch_begins(const Launch *launch, uint64_t workgroups) {
  begin_watch();
  pthread_mutex_lock(&lock);
  running = launch;
  running_workgroups = workgroups;
  began_s = now_s();
  pthread_mutex_unlock(&lock);
}

void launch_ends(const Launch *launch) {
  pthread_mutex_lock(&lock);
  if (running == launch) running = NULL;
  launches_ended++;
  pthread_mutex_unlock(&lock);
}

/* The name of a kernel without its parameters, in C++ where the program has a demangler. */
static void name_kernel(const char *symbol, char name[static 256]) {
  char *(*demangle)(const char *, char *, size_t *, int *) = (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT, "__cxa_demangle");
  int status = -1;
  char *text = demangle ? demangle(symbol, NULL, NULL, &status) : NULL;
  snprintf(name, 256, "%s", text ? text : symbol);
  if (text) {
    char *end = strrchr(name, '(');
    if (end > name) *end = 0;
  }
  free(text);
}

static void print_progress(double running_s) {
  pthread_mutex_lock(&lock);
  char launch[512], name[256], rest[64] = "";
  snprintf(launch, sizeof launch, "none is at work, the program's own code is");
  if (running) {
    name_kernel(running->kernel->name, name);
    uint64_t done = running->progress / 2; /* each begins and ends */
    double left_s = done ? (now_s() - began_s) * (double)(running_workgroups - done) / (double)done : 0;
    if (left_s >= 1) snprintf(rest, sizeof rest, left_s < 90 ? ", about %.0f s to go" : ", about %.0f min to go", left_s < 90 ? left_s : left_s / 60);
    snprintf(launch, sizeof launch, "%s is at work, %" PRIu64 " of its %" PRIu64 " workgroups have ended%s",
             name, done, running_workgroups, rest);
  }
  fprintf(stderr, "emulated %s: after %.0f s %" PRIu64 " launch%s ended; %s\n", device()->name, running_s, launches_ended,
          launches_ended == 1 ? " has" : "es have", launch);
  pthread_mutex_unlock(&lock);
}

static void *watch(void *unused) {
  (void)unused;
  const char *told = getenv("CKWATCH_EMULATOR_PROGRESS_S");
  const double began = now_s(), first_s = told && *told ? strtod(told, NULL) : 10;
  for (double next = first_s;;) {
    nanosleep(&(struct timespec){.tv_nsec = EACH_MS * 1000000}, NULL);
    look_at_memory();
    double running_s = now_s() - began;
    if (running_s < next) continue;
    print_progress(running_s);
    next = running_s + 3 * first_s;
  }
}

static void start(void) {
  const char *report = getenv("CKWATCH_EMULATOR_REPORT");
  pthread_t thread;
  if (report && *report && pthread_create(&thread, NULL, watch, NULL) == 0) pthread_detach(thread);
}

void begin_watch(void) {
  static pthread_once_t started = PTHREAD_ONCE_INIT;
  pthread_once(&started, start);
}
