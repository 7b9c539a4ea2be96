/* RDNA: the instructions that gfx9 has not: pairs (VOPD), waits, masks of 32 bits, the time.
 *
 * Semantics: "RDNA3 Instruction Set Architecture". */
#include "ordering.h"
#include "checks.h"
#include "values.h"

#define FUNCTION(name) static void execute_##name(Wave *w, const Instruction *i)
#define EACH for (int l = 0; l < LANES; l++)

/* ---- Pairs ------------------------------------------------------------------------------------------------------------- */
FUNCTION(pair) {
  for (int n = 0; n < i->part_count; n++) {
    const Instruction *part = &i->parts[n];
    bool checked = w->checks && (has_doubts(w->checks, part) || w->launch->traced);
    if (checked) check_before(w, part);
    part->execute(w, part);
    if (checked) check_after(w, part);
  }
}
const Row pair_row = {"v_dual", execute_pair, 0, IS_MEMORY, PLAIN_BITS, 0}; /* calls the checks itself */

/* ---- Scalar -------------------------------------------------------------------------------------------------------- */
#define SAVE_EXEC(name, expression)                                                          \
  FUNCTION(s_##name##_b32) {                                                                 \
    uint32_t a = scalar_operand(w, &i->operand[1]), exec = w->s[EXEC];                       \
    put_scalar(w, i->operand[0].index, exec);                                                \
    w->s[EXEC] = (expression);                                                               \
    w->s[SCC] = w->s[EXEC] != 0;                                                             \
  }
SAVE_EXEC(and_saveexec, a & exec)
SAVE_EXEC(or_saveexec, a | exec)
SAVE_EXEC(xor_saveexec, a ^ exec)
SAVE_EXEC(and_not0_saveexec, ~a & exec)
SAVE_EXEC(and_not1_saveexec, a & ~exec)
SAVE_EXEC(or_not0_saveexec, ~a | exec)
SAVE_EXEC(or_not1_saveexec, a | ~exec)
SAVE_EXEC(nand_saveexec, ~(a & exec))
SAVE_EXEC(nor_saveexec, ~(a | exec))
SAVE_EXEC(xnor_saveexec, ~(a ^ exec))

FUNCTION(s_pack_hl_b32_b16) {
  uint32_t a = scalar_operand(w, &i->operand[1]), b = scalar_operand(w, &i->operand[2]);
  put_scalar(w, i->operand[0].index, a >> 16 | b << 16);
}
/* expcnt in bits 2:0, lgkmcnt in 9:4, vmcnt in 15:10. All ones: do not wait. Stores are counted by themselves, and
 * nothing in a wave needs to wait for them. */
FUNCTION(s_waitcnt) {
  if (!w->checks) return;
  int lgkm = i->offset1 >> 4 & 63, vm = i->offset1 >> 10 & 63;
  check_wait(w, vm == 63 ? -1 : vm, lgkm == 63 ? -1 : lgkm, -1);
}
FUNCTION(s_waitcnt_vmcnt) {
  if (w->checks) check_wait(w, i->offset1 & 63, -1, -1);
}
FUNCTION(s_waitcnt_lgkmcnt) {
  if (w->checks) check_wait(w, -1, i->offset1 & 63, -1);
}
FUNCTION(s_waitcnt_vscnt) {
  if (w->checks && !(i->offset1 & 63)) order_wait(w);
}
/* The only message that returns what does not depend on the machine. It arrives as scalar loads do. */
FUNCTION(s_sendmsg_rtn) {
  enum { GET_REALTIME = 0x83 };
  if ((i->offset1 & 255) != GET_REALTIME) {
    cannot_execute(w, i, "a message that returns something else than the time");
    return;
  }
  put_scalar(w, i->operand[0].index, (uint32_t)w->executed);
  if (i->operand[0].count > 1) put_scalar(w, i->operand[0].index + 1, (uint32_t)(w->executed >> 32));
  if (w->checks) expect_scalar(w, i, i->operand[0].index, i->operand[0].count);
}
FUNCTION(s_round_mode) { /* everything is rounded to nearest */
  if (i->offset1 & 15) unknown_row.execute(w, i);
}
FUNCTION(s_denorm_mode) { w->mode = (w->mode & ~0xf0u) | (i->offset1 & 15) << 4; }

/* ---- Vector -------------------------------------------------------------------------------------------------------- */
FUNCTION(v_cndmask_b16) {
  Lanes buffer[2], d;
  const uint32_t *from[2];
  const uint64_t mask = scalar_operand_pair(w, &i->operand[3]);
  for (int n = 0; n < 2; n++) {
    const Operand *o = &i->operand[1 + n];
    const uint32_t *row = fetch(w, i, o, 0, buffer[n]);
    uint32_t keep = o->abs ? 0x7fff : 0xffff, flip = o->neg ? 0x8000 : 0, by = i->op_sel >> n & 1 ? 16 : 0;
    EACH buffer[n][l] = ((o->kind == LITERAL ? literal_16(o) : row[l] >> by) & keep) ^ flip;
    from[n] = buffer[n];
  }
  const uint32_t *old = w->v[i->operand[0].index];
  bool high = i->operand[0].half == UPPER_HALF;
  EACH {
    uint32_t value = mask >> l & 1 ? from[1][l] : from[0][l];
    d[l] = high ? (old[l] & 0xffff) | value << 16 : (old[l] & 0xffff0000u) | value;
  }
  put(w, i, &i->operand[0], d);
}

/* The lane of its row, or of the other row of 16, that a lane's four bits of the selectors name. */
static void permute_row(Wave *w, const Instruction *i, int other_row) {
  uint64_t select = (uint64_t)scalar_operand(w, &i->operand[3]) << 32 | scalar_operand(w, &i->operand[2]);
  const uint32_t *from = w->v[i->operand[1].index], *old = w->v[i->operand[0].index];
  bool fetches_inactive = i->op_sel & 1, bound_control = i->op_sel & 2;
  Lanes d;
  EACH {
    int source = ((l & ~15) ^ other_row) | (int)(select >> (l & 15) * 4 & 15);
    bool active = fetches_inactive || EXEC_OF(w) >> source & 1;
    d[l] = active ? from[source] : bound_control ? 0 : old[l];
  }
  put_lanes(w, i->operand[0].index, d);
}
FUNCTION(v_permlane16_b32) { permute_row(w, i, 0); }
FUNCTION(v_permlanex16_b32) { permute_row(w, i, 16); }

/* A vector register whose number M0 shifts: of the result, of the source, or of both (of v_movrelsd_2 by halves). */
enum { SHIFTS_RESULT = 1, SHIFTS_SOURCE = 2, BY_HALVES = 4 };
FUNCTION(v_movrel) {
  static __thread Instruction copies[64]; /* findings and origins point to them for a while */
  uint32_t m0 = w->s[M0], which = i->row->detail, mask = which & BY_HALVES ? 0x3ff : ~0u;
  uint32_t result = i->operand[0].index + (which & SHIFTS_RESULT ? m0 >> (which & BY_HALVES ? 16 : 0) & mask : 0);
  uint32_t source = i->operand[1].index + (which & SHIFTS_SOURCE ? m0 & mask : 0);
  if (w->checks) check_scalar_use(w, i, M0, 1);
  if (result > 255 || (which & SHIFTS_SOURCE && source > 255)) {
    cannot_execute(w, i, "a relative index beyond the vector registers");
    return;
  }
  Instruction *move = &copies[(i->address / 4 + m0) % 64];
  *move = *i;
  move->row = find_row("v_mov_b32");
  move->operand[0].index = (uint16_t)result;
  if (which & SHIFTS_SOURCE) move->operand[1].index = (uint16_t)source;
  if (w->checks) check_before(w, move);
  move->row->execute(w, move);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */
#define SAVES(name) {"s_" #name "_saveexec_b32", execute_s_##name##_saveexec_b32, 1, IGNORES_EXEC | WRITES_SCC, PLAIN_BITS, 0}
#define NOTHING(name) {name, execute_nothing, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0}
#define ENCODED(name) {#name, execute_##name, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0}

const Row rdna_rows[] = {
    SAVES(and), SAVES(or), SAVES(xor), SAVES(nand), SAVES(nor), SAVES(xnor), SAVES(and_not0), SAVES(and_not1),
    SAVES(or_not0), SAVES(or_not1),
    {"s_pack_hl_b32_b16", execute_s_pack_hl_b32_b16, 1, IGNORES_EXEC, PLAIN_BITS, 0},
    NOTHING("s_delay_alu"), NOTHING("s_clause"), NOTHING("s_waitcnt_depctr"),
    NOTHING("s_set_inst_prefetch_distance"), NOTHING("buffer_gl0_inv"), NOTHING("s_gl1_inv"),
    NOTHING("s_waitcnt_expcnt"),
    ENCODED(s_waitcnt_vmcnt), ENCODED(s_waitcnt_lgkmcnt), ENCODED(s_waitcnt_vscnt),
    {"buffer_gl1_inv", execute_invalidate, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0},
    {"v_movreld_b32", execute_v_movrel, 1, IS_MEMORY, PLAIN_BITS, SHIFTS_RESULT},
    {"v_movrels_b32", execute_v_movrel, 1, IS_MEMORY, PLAIN_BITS, SHIFTS_SOURCE},
    {"v_movrelsd_b32", execute_v_movrel, 1, IS_MEMORY, PLAIN_BITS, SHIFTS_RESULT | SHIFTS_SOURCE},
    {"v_movrelsd_2_b32", execute_v_movrel, 1, IS_MEMORY, PLAIN_BITS, SHIFTS_RESULT | SHIFTS_SOURCE | BY_HALVES},
    {"s_sendmsg_rtn_b32", execute_s_sendmsg_rtn, 1, IGNORES_EXEC, PLAIN_BITS, 0},
    {"s_sendmsg_rtn_b64", execute_s_sendmsg_rtn, 1, IGNORES_EXEC, PLAIN_BITS, 0},
    ENCODED(s_waitcnt), ENCODED(s_round_mode), ENCODED(s_denorm_mode),
    {"v_cndmask_b16", execute_v_cndmask_b16, 1, 0, PLAIN_BITS, 0},
    {"v_permlane16_b32", execute_v_permlane16_b32, 1, READS_RESULT, PLAIN_BITS, 0},
    {"v_permlanex16_b32", execute_v_permlanex16_b32, 1, READS_RESULT, PLAIN_BITS, 0},
    {NULL, NULL, 0, 0, PLAIN_BITS, 0},
};
