/* What was found, each thing once, with the number of its occurrences, as JSON: by the first of the workgroups that
 * show it, so that each run tells the same. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_object.h"
#include "host_calls.h"

enum { MOST_OF_A_KIND = 100, MOST_FINDINGS = MOST_OF_A_KIND * FINDING_KINDS };

static const char *const kind_names[FINDING_KINDS] = {
    [OUT_OF_BOUNDS_READ] = "out-of-bounds-read",
    [OUT_OF_BOUNDS_WRITE] = "out-of-bounds-write",
    [LDS_OUT_OF_BOUNDS] = "lds-out-of-bounds",
    [LDS_RACE] = "lds-race",
    [UNDEFINED_VALUE] = "undefined-value",
    [MISSING_WAIT] = "missing-wait",
    [DIVERGENT_BARRIER] = "divergent-barrier",
    [MISALIGNED] = "misaligned",
    [NON_FINITE] = "non-finite",
    [WRITE_CONFLICT] = "write-conflict",
    [MEMORY_RACE] = "memory-race",
    [TRAP] = "trap",
    [OUTSIDE_CODE] = "outside-code",
    [NO_END] = "no-end",
    [UNKNOWN_INSTRUCTION] = "unknown-instruction",
    [WRONG_RESULT] = "wrong-result",
    [CLOCK_READ] = "clock-read",
    [SLEEP] = "sleep",
};

/* A copy of all that is told: the code object may be unloaded before it is asked for. */
typedef struct {
  FindingKind kind;
  char *kernel, *instruction, *other_instruction;
  bool has_at, has_other;
  uint32_t pc, other_pc;
  uint64_t text_address;
  uint32_t code_object; /* the number of its copy, or 0 */
  uint32_t workgroup[3], wave;
  int lane, other_wave, other_lane;
  bool has_address, has_region, not_executed;
  uint64_t address, region_base, region_size;
  uint32_t bytes;
  char note[512];
  uint64_t count;
} Kept;

static Kept kept[MOST_FINDINGS];
static uint32_t kept_count, kept_of_kind[FINDING_KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *copy_of(const char *text) {
  char *copy = strdup(text ? text : "");
  if (!copy) abort();
  return copy;
}

static bool is_same(const Kept *k, const Finding *f, const char *kernel) {
  return k->kind == f->kind && k->has_at == (f->at != NULL) && (!f->at || k->pc == f->at->address) &&
         strcmp(k->kernel, kernel) == 0 && (!f->at || strcmp(k->instruction, f->at->text ? f->at->text : "") == 0);
}

static bool is_of_memory(FindingKind kind) {
  return kind == OUT_OF_BOUNDS_READ || kind == OUT_OF_BOUNDS_WRITE;
}

static void discard(Kept *k) {
  free(k->kernel);
  free(k->instruction);
  free(k->other_instruction);
}

static void keep(Kept *k, const Wave *wave, const Finding *finding, const char *kernel, uint64_t count) {
  *k = (Kept){.kind = finding->kind,
              .kernel = copy_of(kernel),
              .has_at = finding->at != NULL,
              .has_other = finding->other != NULL,
              .text_address = wave->code ? wave->code->own_text_address : 0, /* as the disassembler prints it */
              .wave = wave->id,
              .lane = finding->lane,
              .other_wave = finding->other_wave,
              .other_lane = finding->other_lane,
              .has_address = finding->has_address,
              .address = finding->address,
              .bytes = finding->bytes,
              .not_executed = finding->not_executed,
              .count = count};
  k->instruction = copy_of(finding->at ? finding->at->text : NULL);
  k->other_instruction = copy_of(finding->other ? finding->other->text : NULL);
  if (finding->at) k->pc = finding->at->address;
  if (finding->other) k->other_pc = finding->other->address;
  const Kernel *launched = wave->launch ? wave->launch->kernel : NULL;
  if (launched && launched->object) k->code_object = saved_copy(launched->object);
  if (wave->group) memcpy(k->workgroup, wave->group->id, sizeof k->workgroup);
  memcpy(k->note, finding->note, sizeof k->note);
  k->note[sizeof k->note - 1] = 0;
  bool in_memory = finding->has_address && is_of_memory(finding->kind);
  const Region *region = in_memory ? nearest_region(finding->address) : NULL;
  if (region) k->has_region = true, k->region_base = region->base, k->region_size = region->size;
}

/* A workgroup that comes before the one in which this was found first. */
static bool is_earlier(const Wave *wave, const Kept *k) {
  for (int n = 2; n >= 0 && wave->group; n--)
    if (wave->group->id[n] != k->workgroup[n]) return wave->group->id[n] < k->workgroup[n];
  return false;
}

void report(Wave *wave, const Finding *finding) {
  const Launch *launch = wave->launch;
  const char *kernel = launch && launch->kernel && launch->kernel->name ? launch->kernel->name : "";
  pthread_mutex_lock(&lock);
  Kept *k = kept;
  while (k < kept + kept_count && !is_same(k, finding, kernel)) k++;
  if (k == kept + kept_count) {
    if (kept_of_kind[finding->kind] < MOST_OF_A_KIND) {
      kept_of_kind[finding->kind]++;
      kept_count++;
      keep(k, wave, finding, kernel, 1);
    }
  } else if (finding->not_executed) {
    /* it is known, or better known from its execution */
  } else if (k->not_executed) {
    discard(k);
    keep(k, wave, finding, kernel, 1);
  } else if (is_earlier(wave, k)) {
    uint64_t count = k->count + 1;
    discard(k);
    keep(k, wave, finding, kernel, count);
  } else {
    k->count++;
  }
  pthread_mutex_unlock(&lock);
}

void report_and_stop(Wave *wave, const Finding *finding) {
  report(wave, finding);
  wave->state = STOPPED;
  wave->launch->stop = true;
}

uint32_t finding_count(void) {
  pthread_mutex_lock(&lock);
  uint32_t count = kept_count;
  pthread_mutex_unlock(&lock);
  return count;
}

void clear_findings(void) {
  pthread_mutex_lock(&lock);
  for (uint32_t n = 0; n < kept_count; n++) discard(&kept[n]);
  kept_count = 0;
  memset(kept_of_kind, 0, sizeof kept_of_kind);
  pthread_mutex_unlock(&lock);
  forget_error_line();
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */
typedef struct {
  char *text;
  size_t length, room;
} Text;

__attribute__((format(printf, 2, 3))) static void append(Text *t, const char *format, ...) {
  for (;;) {
    va_list arguments;
    va_start(arguments, format);
    int needed = vsnprintf(t->text + t->length, t->room - t->length, format, arguments);
    va_end(arguments);
    if (needed < 0) abort();
    if ((size_t)needed < t->room - t->length) {
      t->length += (size_t)needed;
      return;
    }
    t->room = t->room * 2 + (size_t)needed;
    t->text = realloc(t->text, t->room);
    if (!t->text) abort();
  }
}

static void append_string(Text *t, const char *name, const char *value) {
  append(t, ",\"%s\":\"", name);
  for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
    if (*c == '"' || *c == '\\') append(t, "\\%c", *c);
    else if (*c < 0x20 || *c >= 0x7f) append(t, "\\u%04x", *c); /* bytes beyond ASCII as Latin-1: always valid JSON */
    else append(t, "%c", *c);
  }
  append(t, "\"");
}

static void append_index(Text *t, const char *name, int value) {
  if (value < 0) append(t, ",\"%s\":null", name);
  else append(t, ",\"%s\":%d", name, value);
}

char *finding_json(uint32_t n) {
  pthread_mutex_lock(&lock);
  if (n >= kept_count) {
    pthread_mutex_unlock(&lock);
    return NULL;
  }
  const Kept *k = &kept[n];
  Text t = {.text = malloc(1024), .room = 1024};
  if (!t.text) abort();
  append(&t, "{\"kind\":\"%s\"", kind_names[k->kind]);
  append_string(&t, "kernel", k->kernel);
  if (k->has_at) append(&t, ",\"pc\":%" PRIu32, k->pc);
  else append(&t, ",\"pc\":null");
  append(&t, ",\"text_address\":%" PRIu64 ",\"code_object\":%" PRIu32, k->text_address, k->code_object);
  if (k->has_at) append_string(&t, "instruction", k->instruction);
  else append(&t, ",\"instruction\":null");
  if (k->has_other) {
    append(&t, ",\"other_pc\":%" PRIu32, k->other_pc);
    append_string(&t, "other_instruction", k->other_instruction);
  } else {
    append(&t, ",\"other_pc\":null,\"other_instruction\":null");
  }
  if (k->not_executed) append(&t, ",\"workgroup\":null,\"wave\":null");
  else
    append(&t, ",\"workgroup\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "],\"wave\":%" PRIu32, k->workgroup[0],
           k->workgroup[1], k->workgroup[2], k->wave);
  append_index(&t, "lane", k->lane);
  append_index(&t, "other_wave", k->other_wave);
  append_index(&t, "other_lane", k->other_lane);
  if (k->has_address) append(&t, ",\"address\":\"%" PRIu64 "\",\"bytes\":%" PRIu32, k->address, k->bytes);
  else append(&t, ",\"address\":null,\"bytes\":null");
  if (k->has_region)
    append(&t, ",\"region_base\":\"%" PRIu64 "\",\"region_size\":%" PRIu64, k->region_base, k->region_size);
  else append(&t, ",\"region_base\":null,\"region_size\":null");
  append_string(&t, "note", k->note);
  append(&t, ",\"count\":%" PRIu64 "}", k->count);
  pthread_mutex_unlock(&lock);
  return t.text;
}
