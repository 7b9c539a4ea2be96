/* One wave without a kernel around it: registers and memory in, a few instructions, registers and memory out. For the
 * tests of single instructions against their definitions. */
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "paths.h"
#include "steps.h"

#define EXPORT __attribute__((visibility("default")))

enum { MOST_INSTRUCTIONS = 1 << 20 };

static void *zeroed(size_t size) {
  size = (size + 63) & ~(size_t)63;
  void *memory = aligned_alloc(64, size);
  if (!memory) abort();
  return memset(memory, 0, size);
}

static void run(Wave *w) {
  while (w->state == RUNNING && w->next < w->code->count && w->executed++ < MOST_INSTRUCTIONS) {
    const Step *step = &w->code->steps[w->next];
    const Instruction *i = &w->code->instructions[w->next++];
    bool checked = w->checks && !(i->row->flags & IS_MEMORY) && (has_doubts(w->checks, i) || w->launch->traced);
    if (checked) check_before(w, i);
    if (checked) i->execute(w, i);
    else step->perform(w, step);
    if (checked) check_after(w, i);
    if (w->state == AT_BARRIER) w->state = RUNNING;
  }
}

/* `vectors` is [512][64], `scalars` [160] with EXEC, VCC, M0 and SCC where machine.h has them. `undefined` has a byte for
 * each of `memory`, 1 where nothing has written it, or is NULL. `counts`: one for each instruction, for what its accesses
 * cost by the rules of ckwatch_emulator_count; or NULL. `scratch_bytes` are one lane's. */
typedef struct {
  uint32_t *vectors, *scalars;
  uint8_t *lds, *memory, *undefined, *scratch;
  InstructionCounts *counts;
  uint32_t lds_bytes, memory_bytes, scratch_bytes, mode, arch, checked, traced;
} SingleWave;

static void copy_undefined(const SingleWave *s, bool back) {
  uint64_t base = (uint64_t)(uintptr_t)s->memory;
  for (uint32_t n = 0; s->undefined && n < s->memory_bytes; n++)
    if (back) s->undefined[n] = count_undefined(base + n, 1, NULL) != 0;
    else if (s->undefined[n]) mark_undefined(base + n, 1, true);
}

/* Decodes lines as llvm-objdump prints them and executes them until s_endpgm or the end of the text. 0, 1 if there are
 * findings, or 2 if the text cannot be decoded. */
EXPORT int ckwatch_emulator_run_wave(const char *disassembly, const SingleWave *s) {
  clear_findings();
  char *problem = NULL;
  Arch arch = (Arch)s->arch;
  Code *code = decode(disassembly, arch, &problem);
  if (!code) {
    free(problem);
    return 2;
  }
  Kernel kernel = {.name = "", .lds_bytes = s->lds_bytes, .scratch_bytes = s->scratch_bytes, .vgprs = VECTOR_REGISTERS,
                   .accum_offset = 256, .max_workgroup = LANES};
  Launch launch = {.kernel = &kernel, .code = code, .arch = arch, .grid = {1, 1, 1}, .block = {LANES, 1, 1},
                   .checked = s->checked != 0, .traced = s->traced != 0, .instruction_limit = MOST_INSTRUCTIONS, .waves = 1, .lanes = lanes_of_wave(arch)};
  Wave *w = zeroed(sizeof *w);
  Workgroup group = {.launch = &launch, .lds = s->lds, .lds_bytes = s->lds_bytes, .waves = {w}, .wave_count = 1,
                     .counts = s->counts};
  memcpy(w->v, s->vectors, sizeof w->v);
  memcpy(w->s, s->scalars, sizeof w->s);
  w->live = ~0ull;
  w->mode = s->mode;
  w->group = &group;
  w->launch = &launch;
  w->code = code;
  w->scratch = s->scratch_bytes ? s->scratch : NULL;
  w->scratch_bytes = s->scratch_bytes;
  add_region((uint64_t)(uintptr_t)s->memory, s->memory_bytes, DEVICE_MEMORY);
  copy_undefined(s, false);
  if (s->checked) {
    group.lds_shadow = zeroed(lds_shadow_bytes(s->lds_bytes));
    reset_lds_shadow(&group);
    w->checks = new_wave_checks();
    reset_wave_checks(w);
    for (uint32_t n = 0; n < VECTOR_REGISTERS; n++) define_vector(w, n, ~0ull);
    for (uint32_t n = 0; n < SCALAR_REGISTERS; n++) define_scalar(w, n);
  }
  run(w);
  memcpy(s->vectors, w->v, sizeof w->v);
  memcpy(s->scalars, w->s, sizeof w->s);
  copy_undefined(s, true);
  remove_region((uint64_t)(uintptr_t)s->memory);
  if (s->checked) free_wave_checks(w->checks);
  free(group.lds_shadow);
  free(w);
  free_code(code);
  return finding_count() > 0;
}

/* Reports the waits that are missing on some path of the lines, none of which is executed. False: they cannot be
 * decoded. */
EXPORT bool ckwatch_emulator_check_paths(const char *disassembly, int arch) {
  clear_findings();
  char *problem = NULL;
  Code *code = decode(disassembly, (Arch)arch, &problem);
  free(problem);
  if (!code) return false;
  Kernel kernel = {.name = ""};
  Launch launch = {.kernel = &kernel, .code = code, .arch = (Arch)arch};
  report_missing_waits(&launch);
  free_missing_waits(kernel.missing_waits);
  free_code(code);
  return true;
}

/* The names of a table's instructions, one after the other; NULL after the last. */
EXPORT const char *ckwatch_emulator_instruction(int table, uint32_t n) {
  const Row *const tables[] = {vector_rows,        scalar_rows, matrix_rows,       rdna_rows,
                               global_memory_rows, lds_rows,    scalar_memory_rows, rdna4_rows, wmma_rows};
  return tables[table][n].name;
}
