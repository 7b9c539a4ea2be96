/* Code that was decoded: where its instructions are, and what ends a wave that cannot go on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

int32_t instruction_at(const Code *code, uint64_t address) {
  uint32_t low = 0, high = code->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (code->instructions[middle].address < address) low = middle + 1;
    else high = middle;
  }
  return low < code->count && code->instructions[low].address == address ? (int32_t)low : -1;
}

void free_code(Code *code) {
  if (!code) return;
  for (uint32_t n = 0; n < code->count; n++) free(code->instructions[n].parts);
  free(code->instructions);
  free(code->runs);
  free(code->steps);
  free(code->texts);
  free(code);
}

const ArchFacts arch_facts[] = {
    [GFX90A] = {"gfx90a", 64, {63, 15}, {"vmcnt", "lgkmcnt", "lgkmcnt"}},
    [GFX942] = {"gfx942", 64, {63, 15}, {"vmcnt", "lgkmcnt", "lgkmcnt"}},
    [GFX950] = {"gfx950", 64, {63, 15}, {"vmcnt", "lgkmcnt", "lgkmcnt"}},
    [GFX1100] = {"gfx1100", 32, {63, 63}, {"vmcnt", "lgkmcnt", "lgkmcnt"}},
    [GFX1201] = {"gfx1201", 32, {63, 63}, {"loadcnt", "dscnt", "kmcnt"}},
    [GFX1250] = {"gfx1250", 32, {63, 63}, {"loadcnt", "dscnt", "kmcnt"}},
};

void execute_nothing(Wave *w, const Instruction *i) { (void)w, (void)i; }

void cannot_execute(Wave *w, const Instruction *i, const char *why) {
  Finding f = {.kind = UNKNOWN_INSTRUCTION, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1};
  snprintf(f.note, sizeof f.note, "%s", why);
  report_and_stop(w, &f);
}

static void execute_unknown(Wave *w, const Instruction *i) { cannot_execute(w, i, ""); }
const Row unknown_row = {"unknown", execute_unknown, 0, IGNORES_EXEC, PLAIN_BITS, 0};

void leave_code(Wave *w, const Instruction *i, const char *format, ...) {
  Finding finding = {.kind = OUTSIDE_CODE, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(finding.note, sizeof finding.note, format, arguments);
  va_end(arguments);
  report_and_stop(w, &finding);
}

/* Reached from the instruction before it: no branch leads here. */
static void execute_end(Wave *w, const Instruction *i) { leave_code(w, i - 1, "the code ends behind it, without s_endpgm"); }
const Row end_row = {"end", execute_end, 0, IGNORES_EXEC, PLAIN_BITS, 0};
