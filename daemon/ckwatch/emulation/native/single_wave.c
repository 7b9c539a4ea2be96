/* One wave without a kernel around it: registers and LDS in, a few instructions, registers and LDS out. For the tests of
 * single instructions against their definitions. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

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
    const Instruction *i = &w->code->instructions[w->next++];
    bool checked = w->checks && !(i->row->flags & IS_MEMORY);
    if (checked) check_before(w, i);
    i->execute(w, i);
    if (checked) check_after(w, i);
    if (w->state == AT_BARRIER) w->state = RUNNING;
  }
}

/* `vectors` is [512][64], `scalars` [160] with EXEC, VCC, M0 and SCC where machine.h has them. Decodes lines as
 * llvm-objdump prints them and executes them until s_endpgm or the end of the text. 0, 1 if there are findings, or 2 if
 * the text cannot be decoded. */
EXPORT int ckwatch_emulator_run_wave(const char *disassembly, int arch, uint32_t *vectors, uint32_t *scalars, uint8_t *lds,
                                     uint32_t lds_bytes, uint32_t mode, int checked) {
  clear_findings();
  char *problem = NULL;
  Code *code = decode(disassembly, (Arch)arch, &problem);
  if (!code) {
    free(problem);
    return 2;
  }
  Kernel kernel = {.name = "", .lds_bytes = lds_bytes, .vgprs = VECTOR_REGISTERS, .accum_offset = 256, .max_workgroup = LANES};
  Launch launch = {.kernel = &kernel, .code = code, .arch = (Arch)arch, .grid = {1, 1, 1}, .block = {LANES, 1, 1},
                   .checked = checked != 0, .instruction_limit = MOST_INSTRUCTIONS, .waves = 1};
  Wave *w = zeroed(sizeof *w);
  Workgroup group = {.launch = &launch, .lds = lds, .lds_bytes = lds_bytes, .waves = {w}, .wave_count = 1};
  memcpy(w->v, vectors, sizeof w->v);
  memcpy(w->s, scalars, sizeof w->s);
  w->live = ~0ull;
  w->mode = mode;
  w->group = &group;
  w->launch = &launch;
  w->code = code;
  if (checked) {
    group.lds_cells = zeroed(lds_cell_bytes(lds_bytes));
    reset_lds_cells(&group);
    w->checks = new_wave_checks();
    reset_wave_checks(w);
    for (uint32_t n = 0; n < VECTOR_REGISTERS; n++) define_vector(w, n, ~0ull);
    for (uint32_t n = 0; n < SCALAR_REGISTERS; n++) define_scalar(w, n);
  }
  run(w);
  memcpy(vectors, w->v, sizeof w->v);
  memcpy(scalars, w->s, sizeof w->s);
  if (checked) free_wave_checks(w->checks);
  free(group.lds_cells);
  free(w);
  free_code(code);
  return finding_count() > 0;
}

/* The names of a table's instructions, one after the other; NULL after the last. */
EXPORT const char *ckwatch_emulator_instruction(int table, uint32_t n) {
  const Row *const tables[] = {vector_rows, scalar_rows, matrix_rows, memory_rows};
  return tables[table][n].name;
}
