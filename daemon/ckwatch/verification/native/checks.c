/* The checks of a wave: values that nothing has defined, results that are used before they have arrived.
 *
 * A value may be undefined as long as it is only moved and computed with: lanes that are masked later compute garbage
 * in correct programs. It is reported when it is stored to memory, is an address, decides a branch or becomes part of
 * EXEC. Shadows follow moves, bit logic, shifts, permutations and selections bit by bit; sums make the bits above the
 * lowest undefined one undefined; everything else makes the result undefined in the whole lane, or its packed half.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "checks.h"
#include "values.h"

#define NO_INLINE __attribute__((noinline))
#define FOR_LANES(lane, lanes) \
  for (uint64_t rest_ = (lanes); rest_ && ((lane) = (unsigned)__builtin_ctzll(rest_), true); rest_ &= rest_ - 1)

/* ---- Names in notes ---------------------------------------------------------------------------------------------- */
static void name_vector(char *text, size_t room, unsigned index) {
  snprintf(text, room, "%c%u", index < 256 ? 'v' : 'a', index % 256);
}

static void name_scalar(char *text, size_t room, unsigned index) {
  static const struct {
    unsigned index;
    const char *name;
  } names[] = {{FLAT_SCRATCH, "flat_scratch_lo"}, {FLAT_SCRATCH + 1, "flat_scratch_hi"}, {VCC, "vcc_lo"},
               {VCC + 1, "vcc_hi"}, {M0, "m0"}, {EXEC, "exec_lo"}, {EXEC + 1, "exec_hi"}, {SCC, "scc"}, {VCCZ, "vccz"}};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    if (names[n].index == index) {
      snprintf(text, room, "%s", names[n].name);
      return;
    }
  if (index >= TTMP0 && index < M0) snprintf(text, room, "ttmp%u", index - TTMP0);
  else snprintf(text, room, "s%u", index);
}

static NO_INLINE void report_undefined(Wave *w, const Instruction *i, const Instruction *origin, int lane,
                                       const char *name, const char *use) {
  Finding f = {.kind = UNDEFINED_VALUE, .at = i, .other = origin, .lane = lane, .other_wave = -1, .other_lane = -1};
  snprintf(f.note, sizeof f.note, "%s: %s", name, use);
  report(w, &f);
}

static NO_INLINE void report_undefined_vector(Wave *w, const Instruction *i, unsigned index, unsigned lane,
                                              const char *use) {
  char name[16];
  name_vector(name, sizeof name, index);
  report_undefined(w, i, w->checks->origin[index], (int)lane, name, use);
}

static NO_INLINE void report_undefined_scalar(Wave *w, const Instruction *i, unsigned index, const char *use) {
  char name[24];
  name_scalar(name, sizeof name, index);
  report_undefined(w, i, w->checks->scalar_origin[index], -1, name, use);
}

/* ---- Shadows ----------------------------------------------------------------------------------------------------- */
uint32_t *prepare_row(WaveChecks *c, unsigned index) {
  uint32_t *row = c->shadow.v[index];
  uint64_t lanes = c->undefined_lanes[index], bit = 1ull << index % 64;
  if (c->has_row[index / 64] & bit) {
    for (int l = 0; l < LANES; l++) row[l] = lanes >> l & 1 ? row[l] : 0;
  } else {
    for (int l = 0; l < LANES; l++) row[l] = lanes >> l & 1 ? ~0u : 0;
    c->has_row[index / 64] |= bit;
  }
  return row;
}

void note_row(WaveChecks *c, unsigned index, const Instruction *origin) {
  const uint32_t *row = c->shadow.v[index];
  uint64_t lanes = 0, bit = 1ull << index % 64;
  for (int l = 0; l < LANES; l++) lanes |= (uint64_t)(row[l] != 0) << l;
  c->undefined_lanes[index] = lanes;
  if (lanes) {
    c->undefined[index / 64] |= bit;
    c->has_row[index / 64] |= bit;
    c->origin[index] = origin;
  } else {
    c->undefined[index / 64] &= ~bit;
    c->has_row[index / 64] &= ~bit;
  }
}

void put_scalar_shadow(WaveChecks *c, unsigned index, uint32_t bits, const Instruction *origin) {
  if (index == NULL_REGISTER || index == EXEC || index == EXEC + 1) return;
  uint64_t bit = 1ull << index % 64;
  c->shadow.s[index] = bits;
  if (bits) c->scalar_undefined[index / 64] |= bit, c->scalar_origin[index] = origin;
  else c->scalar_undefined[index / 64] &= ~bit;
}

static uint32_t scalar_shadow(const WaveChecks *c, unsigned index) {
  if (index == EXEC || index == EXEC + 1 || index == NULL_REGISTER || index == EXECZ) return 0;
  if (index == VCCZ) return (c->shadow.s[VCC] | c->shadow.s[VCC + 1]) != 0;
  return c->shadow.s[index];
}

static uint64_t scalar_pair_shadow(const WaveChecks *c, unsigned index) {
  return (uint64_t)scalar_shadow(c, index + 1) << 32 | scalar_shadow(c, index);
}

WaveChecks *new_wave_checks(void) {
  WaveChecks *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
  if (!c) abort();
  memset(c, 0, sizeof *c);
  return c;
}

void free_wave_checks(WaveChecks *c) {
  if (c) free(c->scratch);
  free(c);
}

void reset_wave_checks(Wave *w) {
  WaveChecks *c = w->checks;
  for (int r = 0; r < VECTOR_REGISTERS; r++) c->undefined_lanes[r] = w->live;
  memset(c->undefined, w->live ? 0xff : 0, sizeof c->undefined);
  memset(c->has_row, 0, sizeof c->has_row);
  memset(c->origin, 0, sizeof c->origin);
  memset(c->scalar_undefined, 0, sizeof c->scalar_undefined);
  memset(c->scalar_origin, 0, sizeof c->scalar_origin);
  for (unsigned s = 0; s < SCALAR_REGISTERS; s++) {
    /* the hardware or the trap handler has set these */
    bool given = s == FLAT_SCRATCH || s == FLAT_SCRATCH + 1 || s == XNACK_MASK || s == XNACK_MASK + 1 ||
                 (s >= TTMP0 && s < M0) || s == NULL_REGISTER || s >= VCCZ;
    c->shadow.s[s] = 0;
    if (!given && s != EXEC && s != EXEC + 1) put_scalar_shadow(c, s, s == SCC ? 1 : ~0u, NULL);
  }
  memset(c->in_flight, 0, sizeof c->in_flight);
  memset(c->flight_serial, 0, sizeof c->flight_serial);
  memset(c->scalar_in_flight, 0, sizeof c->scalar_in_flight);
  for (int n = 0; n < COUNTERS; n++)
    c->first[n] = c->count[n] = c->serial[n] = c->lds_serial[n] = c->lds_done[n] = 0;
  for (int n = 0; n < LDS_OPERATION_KINDS; n++) c->lds_operations[n].count = 0;
  c->always = ~0ull;
  free(c->scratch);
  c->scratch = NULL;
  c->shadow.group = w->group;
  c->shadow.launch = w->launch;
  c->shadow.code = w->code;
  c->shadow.id = w->id;
  c->shadow.mode = w->mode;
  c->shadow.live = w->live;
}

void define_vector(Wave *w, uint32_t index, uint64_t lanes) { define_lanes(w->checks, index, lanes); }
void define_scalar(Wave *w, uint32_t index) { put_scalar_shadow(w->checks, index, 0, NULL); }

/* ---- What is outstanding ----------------------------------------------------------------------------------------- */
static void land(WaveChecks *c, unsigned index) {
  c->in_flight[index / 64] &= ~(1ull << index % 64);
  c->flight_serial[VM][index] = c->flight_serial[LGKM][index] = 0;
}

static void retire(WaveChecks *c, int counter) {
  const Outstanding *o = &c->outstanding[counter][c->first[counter]];
  c->first[counter] = (c->first[counter] + 1) % MOST_OUTSTANDING;
  c->count[counter]--;
  for (unsigned r = o->first; r < (unsigned)o->first + o->count; r++) {
    if (c->flight_serial[counter][r] != o->serial) continue;
    c->flight_serial[counter][r] = 0;
    if (!c->flight_serial[!counter][r]) c->in_flight[r / 64] &= ~(1ull << r % 64);
  }
  if (o->lds_serial) c->lds_done[counter] = o->lds_serial;
}

void expect(Wave *w, const Instruction *i, int counter, unsigned index, unsigned count, uint64_t lanes,
            uint32_t lds_serial) {
  WaveChecks *c = w->checks;
  if (w->launch->arch == GFX1100 && counter == VM && !count) return; /* stores have a counter of their own */
  if (!lanes) count = 0;
  if (c->count[counter] == MOST_OUTSTANDING) retire(c, counter); /* the hardware waits when its counter is full */
  uint32_t serial = ++c->serial[counter];
  c->outstanding[counter][(c->first[counter] + c->count[counter]++) % MOST_OUTSTANDING] = (Outstanding){
      .at = i, .serial = serial, .lds_serial = lds_serial, .first = (uint16_t)index, .count = (uint8_t)count};
  for (unsigned r = index; r < index + count; r++) {
    c->flight_lanes[r] = lanes;
    c->flight_serial[counter][r] = serial;
    c->flight_at[r] = i;
    c->in_flight[r / 64] |= 1ull << r % 64;
  }
}

void expect_scalar(Wave *w, const Instruction *i, unsigned index, unsigned count) {
  WaveChecks *c = w->checks;
  for (unsigned s = index; s < index + count; s++) {
    if (s == NULL_REGISTER) continue;
    c->scalar_in_flight[s / 64] |= 1ull << s % 64;
    c->scalar_flight_at[s] = i;
  }
}

/* Vector memory and LDS finish in their order, scalar memory in any: it is only known to be done when nothing is
 * outstanding. Whatever else is outstanding, at most `lgkm` LDS operations are, the newest. */
void check_wait(Wave *w, int vm, int lgkm, int exp) {
  WaveChecks *c = w->checks;
  (void)exp;
  while (vm >= 0 && c->count[VM] > (uint32_t)vm) retire(c, VM);
  while (lgkm >= 0 && c->count[LGKM] > (uint32_t)lgkm) retire(c, LGKM);
  if (lgkm == 0) memset(c->scalar_in_flight, 0, sizeof c->scalar_in_flight);
}

static NO_INLINE void report_missing_wait(Wave *w, const Instruction *i, unsigned index, uint64_t lanes,
                                          const char *use) {
  WaveChecks *c = w->checks;
  Finding f = {.kind = MISSING_WAIT, .at = i, .other = c->flight_at[index], .lane = __builtin_ctzll(lanes),
               .other_wave = -1, .other_lane = -1};
  char name[16];
  name_vector(name, sizeof name, index);
  snprintf(f.note, sizeof f.note, "%s is %s before its load has arrived (%s)", name, use,
           c->flight_serial[VM][index] ? "vmcnt" : "lgkmcnt");
  report(w, &f);
  land(c, index);
}

static NO_INLINE void check_flight(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes,
                                   const char *use) {
  WaveChecks *c = w->checks;
  for (unsigned r = index; r < index + count; r++)
    if (c->in_flight[r / 64] >> r % 64 & 1 && c->flight_lanes[r] & lanes)
      report_missing_wait(w, i, r, c->flight_lanes[r] & lanes, use);
}

static NO_INLINE void check_scalar_flight(Wave *w, const Instruction *i, unsigned index, unsigned count,
                                          const char *use) {
  WaveChecks *c = w->checks;
  for (unsigned s = index; s < index + count; s++) {
    if (!(c->scalar_in_flight[s / 64] >> s % 64 & 1)) continue;
    Finding f = {.kind = MISSING_WAIT, .at = i, .other = c->scalar_flight_at[s], .lane = -1, .other_wave = -1,
                 .other_lane = -1};
    char name[24];
    name_scalar(name, sizeof name, s);
    snprintf(f.note, sizeof f.note, "%s is %s before its load has arrived (lgkmcnt)", name, use);
    report(w, &f);
    c->scalar_in_flight[s / 64] &= ~(1ull << s % 64);
  }
}

/* ---- Uses by memory instructions --------------------------------------------------------------------------------- */
void check_use(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes) {
  if (any_of(w->checks->in_flight, index, count)) check_flight(w, i, index, count, lanes, "read");
}

static NO_INLINE void use_undefined_scalar(Wave *w, const Instruction *i, unsigned index, unsigned count,
                                           const char *use) {
  WaveChecks *c = w->checks;
  for (unsigned s = index; s < index + count; s++)
    if (scalar_shadow(c, s)) {
      report_undefined_scalar(w, i, s, use);
      put_scalar_shadow(c, s, 0, NULL);
    }
}

void check_scalar_use(Wave *w, const Instruction *i, unsigned index, unsigned count) {
  WaveChecks *c = w->checks;
  if (index + count > SCALAR_REGISTERS) return;
  if (any_of(c->scalar_in_flight, index, count)) check_scalar_flight(w, i, index, count, "read");
  if (any_of(c->scalar_undefined, index, count))
    use_undefined_scalar(w, i, index, count, index == M0 ? "an address" : "stored to memory");
}

static NO_INLINE void use_undefined_address(Wave *w, const Instruction *i, unsigned index, unsigned count,
                                            uint64_t lanes) {
  WaveChecks *c = w->checks;
  for (unsigned r = index; r < index + count; r++) {
    uint64_t undefined = c->undefined_lanes[r] & lanes;
    if (!undefined) continue;
    report_undefined_vector(w, i, r, (unsigned)__builtin_ctzll(undefined), "an address");
    define_lanes(c, r, undefined);
  }
}

void check_address(Wave *w, const Instruction *i, const Operand *o, uint64_t lanes) {
  WaveChecks *c = w->checks;
  if (!lanes) return;
  if (o->kind == VECTOR) {
    unsigned count = o->count ? o->count : 1;
    check_use(w, i, o->index, count, lanes);
    if (any_of(c->undefined, o->index, count)) use_undefined_address(w, i, o->index, count, lanes);
  } else if (o->kind == SCALAR) {
    unsigned count = o->count ? o->count : 1;
    if (any_of(c->scalar_in_flight, o->index, count)) check_scalar_flight(w, i, o->index, count, "read");
    if (any_of(c->scalar_undefined, o->index, count)) use_undefined_scalar(w, i, o->index, count, "an address");
  }
}

void check_stored(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes, uint32_t mask) {
  WaveChecks *c = w->checks;
  if (!any_of(c->undefined, index, count)) return;
  for (unsigned r = index; r < index + count; r++) {
    uint64_t undefined = c->undefined_lanes[r] & lanes;
    if (!undefined) continue;
    const uint32_t *row = prepare_row(c, r);
    unsigned lane;
    FOR_LANES(lane, undefined) if (row[lane] & mask) {
      report_undefined_vector(w, i, r, lane, "stored to memory");
      return;
    }
  }
}

void check_result(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes, int counter) {
  WaveChecks *c = w->checks;
  if (counter < 0 || !any_of(c->in_flight, index, count)) return;
  /* of loads that are counted together, the later one wins */
  for (unsigned r = index; r < index + count; r++)
    if (c->in_flight[r / 64] >> r % 64 & 1 && c->flight_serial[!counter][r] && !c->flight_serial[counter][r])
      check_flight(w, i, r, 1, lanes, "overwritten");
}

void check_scalar_result(Wave *w, const Instruction *i, unsigned index, unsigned count) {
  if (any_of(w->checks->scalar_in_flight, index, count)) check_scalar_flight(w, i, index, count, "overwritten");
}

void put_loaded(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes, uint64_t undefined,
                LoadShadow shadow) {
  WaveChecks *c = w->checks;
  for (unsigned k = 0; k < count; k++) {
    if (!undefined) {
      define_lanes(c, index + k, lanes);
      continue;
    }
    uint32_t *row = prepare_row(c, index + k);
    for (int l = 0; l < LANES; l++)
      if (lanes >> l & 1) row[l] = undefined >> l & 1 ? shadow[l][k] : 0;
    note_row(c, index + k, i);
  }
}

/* ---- What instructions do with undefined bits -------------------------------------------------------------------- */
typedef enum {
  ANYTHING, /* a lane's results are undefined as a whole */
  MOVE, AS_IT_IS /* moves: the handler itself, on the shadow */, BIT_AND, BIT_OR, BIT_XOR, AND_THEN_OR,
  SHIFT_THEN_OR, SHIFT_LEFT, SHIFT_RIGHT, SHIFT_ARITHMETIC, SHIFT_LEFT_64, SHIFT_RIGHT_64, ALIGN, EXTRACT,
  EXTRACT_SIGNED, INSERT, PERMUTE, SELECT, TRUTH_TABLE, SUM, SUM_64, HALVES, PACK, COMPARE, READ_LANE, READ_FIRST_LANE,
  WRITE_LANE, MATRIX,
  SCALAR_MOVE, SCALAR_AND, SCALAR_OR, SCALAR_XOR, SCALAR_AND_NOT, SCALAR_OR_NOT, SCALAR_SHIFT_LEFT, SCALAR_SHIFT_RIGHT,
  SCALAR_SELECT, SCALAR_SUM, SAVE_AND, SAVE_OR, SAVE_ANYTHING, SCALAR_ANYTHING,
} Effect;

/* Which bits of a source count. */
typedef enum { WHOLE, LOW_HALF, LOW_BYTE, BYTE_N } SourceBits;
/* What is in the sources, for non-finite values. */
typedef enum { NO_FLOATS, FLOAT_32, FLOAT_16, BRAIN_16, FLOAT_64, MIXED, FLOAT_8 } SourceType;

typedef struct {
  const Row *row;
  uint8_t effect, bits, source_type;
  uint8_t reversed;  /* the amount of a shift comes first */
  uint8_t with_mask; /* the last source is a mask by lane */
  uint8_t which;     /* byte of v_cvt_f32_ubyteN; rows and columns of a matrix that is one block, or 0 */
} Traits;

static const struct {
  const char *name;
  uint8_t effect, reversed;
} effects[] = {
    {"v_mov_b32", MOVE, 0}, {"v_mov_b64", MOVE, 0}, {"v_accvgpr_read_b32", MOVE, 0}, {"v_accvgpr_write_b32", MOVE, 0},
    {"v_accvgpr_read", MOVE, 0}, {"v_accvgpr_write", MOVE, 0}, {"v_accvgpr_mov_b32", MOVE, 0},
    {"v_swap_b32", AS_IT_IS, 0}, {"v_permlane16_swap_b32", AS_IT_IS, 0}, {"v_permlane32_swap_b32", AS_IT_IS, 0},
    {"v_pk_mov_b32", AS_IT_IS, 0},
    {"v_and_b32", BIT_AND, 0}, {"v_or_b32", BIT_OR, 0}, {"v_or3_b32", BIT_OR, 0}, {"v_xor_b32", BIT_XOR, 0},
    {"v_xnor_b32", BIT_XOR, 0}, {"v_not_b32", BIT_XOR, 0}, {"v_and_or_b32", AND_THEN_OR, 0},
    {"v_lshl_or_b32", SHIFT_THEN_OR, 0}, {"v_lshlrev_b32", SHIFT_LEFT, 1}, {"v_lshrrev_b32", SHIFT_RIGHT, 1},
    {"v_ashrrev_i32", SHIFT_ARITHMETIC, 1}, {"v_lshlrev_b64", SHIFT_LEFT_64, 1}, {"v_lshrrev_b64", SHIFT_RIGHT_64, 1},
    {"v_alignbit_b32", ALIGN, 0}, {"v_alignbyte_b32", ALIGN, 1}, {"v_bfe_u32", EXTRACT, 0},
    {"v_bfe_i32", EXTRACT_SIGNED, 0}, {"v_bfi_b32", INSERT, 0}, {"v_perm_b32", PERMUTE, 0},
    {"v_cndmask_b32", SELECT, 0}, {"v_bitop3_b32", TRUTH_TABLE, 0}, {"v_bitop3_b16", TRUTH_TABLE, 0},
    {"v_add_u32", SUM, 0}, {"v_sub_u32", SUM, 0}, {"v_subrev_u32", SUM, 0}, {"v_add_i32", SUM, 0},
    {"v_sub_i32", SUM, 0},
    {"v_add_u16", SUM, 0}, {"v_sub_u16", SUM, 0}, {"v_subrev_u16", SUM, 0}, {"v_mul_lo_u16", SUM, 0},
    {"v_mad_legacy_u16", SUM, 0}, {"v_mad_u16", SUM, 0}, {"v_mad_legacy_i16", SUM, 0}, {"v_mad_i16", SUM, 0},
    {"v_lshlrev_b16", SHIFT_LEFT, 1}, {"v_lshrrev_b16", SHIFT_RIGHT, 1}, {"v_ashrrev_i16", SHIFT_ARITHMETIC, 1},
    {"v_mad_u32_u24", SUM, 0}, {"v_mad_i32_i24", SUM, 0}, {"v_xad_u32", SUM, 0},
    {"v_mad_u64_u32", SUM_64, 0}, {"v_mad_i64_i32", SUM_64, 0}, {"v_lshl_add_u64", SUM_64, 0},
    {"v_add3_u32", SUM, 0}, {"v_mul_lo_u32", SUM, 0}, {"v_mul_u32_u24", SUM, 0}, {"v_mul_i32_i24", SUM, 0},
    {"v_pack_b32_f16", PACK, 0}, {"v_cvt_pkrtz_f16_f32", HALVES, 1}, {"v_cvt_pk_bf16_f32", HALVES, 1},
    {"v_readlane_b32", READ_LANE, 0}, {"v_readfirstlane_b32", READ_FIRST_LANE, 0}, {"v_writelane_b32", WRITE_LANE, 0},
    {"s_mov_b32", SCALAR_MOVE, 0}, {"s_mov_b64", SCALAR_MOVE, 0}, {"s_and_b32", SCALAR_AND, 0},
    {"s_and_b64", SCALAR_AND, 0}, {"s_nand_b32", SCALAR_AND, 0}, {"s_nand_b64", SCALAR_AND, 0},
    {"s_or_b32", SCALAR_OR, 0}, {"s_or_b64", SCALAR_OR, 0}, {"s_nor_b32", SCALAR_OR, 0}, {"s_nor_b64", SCALAR_OR, 0},
    {"s_xor_b32", SCALAR_XOR, 0}, {"s_xor_b64", SCALAR_XOR, 0}, {"s_xnor_b32", SCALAR_XOR, 0},
    {"s_xnor_b64", SCALAR_XOR, 0}, {"s_not_b32", SCALAR_XOR, 0}, {"s_not_b64", SCALAR_XOR, 0},
    {"s_andn2_b32", SCALAR_AND_NOT, 0}, {"s_andn2_b64", SCALAR_AND_NOT, 0}, {"s_orn2_b32", SCALAR_OR_NOT, 0},
    {"s_orn2_b64", SCALAR_OR_NOT, 0}, {"s_lshl_b32", SCALAR_SHIFT_LEFT, 0}, {"s_lshl_b64", SCALAR_SHIFT_LEFT, 0},
    {"s_lshr_b32", SCALAR_SHIFT_RIGHT, 0}, {"s_lshr_b64", SCALAR_SHIFT_RIGHT, 0}, {"s_cselect_b32", SCALAR_SELECT, 0},
    {"s_cselect_b64", SCALAR_SELECT, 0}, {"s_add_u32", SCALAR_SUM, 0}, {"s_add_i32", SCALAR_SUM, 0},
    {"s_sub_u32", SCALAR_SUM, 0}, {"s_sub_i32", SCALAR_SUM, 0}, {"s_mul_i32", SCALAR_SUM, 0},
    {"s_and_saveexec_b64", SAVE_AND, 0}, {"s_andn1_saveexec_b64", SAVE_AND, 0}, {"s_or_saveexec_b64", SAVE_OR, 0},
    {"s_orn1_saveexec_b64", SAVE_OR, 0}, {"s_andn2_saveexec_b64", SAVE_OR, 0}, {"s_orn2_saveexec_b64", SAVE_AND, 0},
    {"s_xor_saveexec_b64", SAVE_ANYTHING, 0}, {"s_nand_saveexec_b64", SAVE_AND, 0},
    {"s_nor_saveexec_b64", SAVE_OR, 0}, {"s_xnor_saveexec_b64", SAVE_ANYTHING, 0},
    {"s_and_saveexec_b32", SAVE_AND, 0}, {"s_and_not0_saveexec_b32", SAVE_AND, 0}, {"s_or_saveexec_b32", SAVE_OR, 0},
    {"s_or_not0_saveexec_b32", SAVE_OR, 0}, {"s_and_not1_saveexec_b32", SAVE_OR, 0},
    {"s_or_not1_saveexec_b32", SAVE_AND, 0}, {"s_xor_saveexec_b32", SAVE_ANYTHING, 0},
    {"s_nand_saveexec_b32", SAVE_AND, 0}, {"s_nor_saveexec_b32", SAVE_OR, 0}, {"s_xnor_saveexec_b32", SAVE_ANYTHING, 0},
    {"v_cndmask_b16", SELECT, 0},
};

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* The type that a name ends with, which is that of the sources. */
static const char *last_type(const char *name) {
  const char *type = strrchr(name, '_');
  return type ? type + 1 : name;
}

static Traits classify(const Row *row) {
  const char *name = row->name ? row->name : "", *type = last_type(name);
  Traits t = {.row = row, .effect = name[0] == 's' && name[1] == '_' ? SCALAR_ANYTHING : ANYTHING};
  for (size_t n = 0; n < sizeof effects / sizeof *effects; n++)
    if (strcmp(effects[n].name, name) == 0) t.effect = effects[n].effect, t.reversed = effects[n].reversed;
  bool packed = begins(name, "v_pk_"), half = strcmp(type, "f16") == 0 || strcmp(type, "bf16") == 0 ||
                                              strcmp(type, "u16") == 0 || strcmp(type, "i16") == 0 ||
                                              strcmp(type, "b16") == 0;
  bool dot = begins(name, "v_dot"), mixed = begins(name, "v_fma_mix") || begins(name, "v_mad_mix");
  if (begins(name, "v_cmp")) t.effect = COMPARE;
  if (packed && (half || strcmp(type, "f32") == 0)) t.effect = HALVES;
  if (half && !packed && !dot && !mixed && t.effect != HALVES && t.effect != PACK && !(row->flags & IS_MATRIX) &&
      !strstr(name, "_pk") && !strstr(name, "sat_pk"))
    t.bits = LOW_HALF;
  if (begins(name, "v_cvt_f32_ubyte")) t.bits = BYTE_N, t.which = (uint8_t)(name[15] - '0');
  if (strcmp(name, "v_cvt_f32_fp8") == 0 || strcmp(name, "v_cvt_f32_bf8") == 0) t.bits = LOW_BYTE;
  if (strcmp(name, "v_cvt_pk_f32_fp8") == 0 || strcmp(name, "v_cvt_pk_f32_bf8") == 0) t.bits = LOW_HALF;
  t.with_mask = begins(name, "v_cndmask") || begins(name, "v_addc_co") || begins(name, "v_subb_co") ||
                begins(name, "v_subbrev_co");
  if (row->flags & IS_MATRIX) {
    t.effect = MATRIX;
    /* one block of 32×32 or 16×16 with 32-bit results */
    if (begins(name, "v_wmma_")) t.which = 16;
    if (begins(name, "v_mfma_") && !begins(name, "v_mfma_f64")) {
      const char *shape = strstr(name, "32x32x");
      t.which = shape ? 32 : (shape = strstr(name, "16x16x")) ? 16 : 0;
    }
    t.source_type = strstr(name, "bf16") ? BRAIN_16 : strstr(name, "fp8") || strstr(name, "bf8") ||
                    strstr(name, "f8f6f4") ? FLOAT_8 : strstr(name, "_f16") ? FLOAT_16 : begins(name, "v_mfma_f64") ?
                    FLOAT_64 : strstr(name, "i8") ? NO_FLOATS : FLOAT_32;
  } else if (mixed || dot) t.source_type = MIXED;
  else if (strcmp(type, "f32") == 0) t.source_type = FLOAT_32;
  else if (strcmp(type, "f16") == 0) t.source_type = FLOAT_16;
  else if (strcmp(type, "bf16") == 0) t.source_type = BRAIN_16;
  else if (strcmp(type, "f64") == 0) t.source_type = FLOAT_64;
  else if (strcmp(type, "fp8") == 0 || strcmp(type, "bf8") == 0 || strcmp(type, "fp6") == 0 ||
           strcmp(type, "bf6") == 0 || strcmp(type, "fp4") == 0)
    t.source_type = FLOAT_8;
  return t;
}

enum { TRAIT_SLOTS = 8192 };
static Traits all_traits[TRAIT_SLOTS];
static pthread_once_t traits_once = PTHREAD_ONCE_INIT;

static uint32_t slot_of(const Row *row) { return (uint32_t)((uintptr_t)row * 0x9e3779b97f4a7c15ull >> 51); }

static void classify_all(void) {
  const Row *const tables[] = {vector_rows, scalar_rows, matrix_rows, rdna_rows};
  uint32_t count = 0;
  for (size_t n = 0; n < sizeof tables / sizeof *tables; n++)
    for (const Row *row = tables[n]; row->name && count < TRAIT_SLOTS / 2; row++, count++) {
      uint32_t slot = slot_of(row);
      while (all_traits[slot].row) slot = (slot + 1) % TRAIT_SLOTS;
      all_traits[slot] = classify(row);
    }
}

static Traits traits_of(const Row *row) {
  pthread_once(&traits_once, classify_all);
  for (uint32_t slot = slot_of(row); all_traits[slot].row; slot = (slot + 1) % TRAIT_SLOTS)
    if (all_traits[slot].row == row) return all_traits[slot];
  return classify(row);
}

/* ---- Shadows of results ------------------------------------------------------------------------------------------ */
typedef struct {
  Wave *w;
  WaveChecks *c;
  const Instruction *i;
  Traits traits;
  const Instruction *origin;
  const Operand *source[MAX_OPERANDS];
  unsigned sources;
} Step;

static const uint32_t *splat(uint32_t *buffer, uint32_t value) {
  for (int l = 0; l < LANES; l++) buffer[l] = value;
  return buffer;
}

static const uint32_t *value_of(const Step *p, unsigned n, unsigned part, uint32_t *buffer) {
  const Operand *o = p->source[n];
  if (o->kind == VECTOR) return fetch(p->w, p->i, o, part, buffer);
  if (o->kind == SCALAR) return splat(buffer, scalar_of(p->w, o->index + part));
  return splat(buffer, part ? (uint32_t)(o->bits >> 32) : literal_32(o));
}

static const uint32_t *shadow_of(const Step *p, unsigned n, unsigned part, uint32_t *buffer) {
  const Operand *o = p->source[n];
  if (o->kind == VECTOR) return fetch(&p->c->shadow, p->i, o, part, buffer);
  return splat(buffer, o->kind == SCALAR ? scalar_shadow(p->c, o->index + part) : 0);
}

static unsigned words_of(const Operand *o) { return o->count ? o->count : 1; }

static uint32_t relevant_bits(const Step *p, unsigned n) {
  switch (p->traits.bits) {
    case LOW_HALF: return p->i->op_sel >> n & 1 ? 0xffff0000u : 0xffff;
    case LOW_BYTE: return 0xff;
    case BYTE_N: return 0xffu << 8 * (p->traits.which & 3);
    default: return ~0u;
  }
}

/* Lanes of which any source has an undefined bit that counts. */
static uint64_t doubtful_lanes(const Step *p) {
  uint64_t lanes = 0;
  for (unsigned n = 0; n < p->sources; n++) {
    const Operand *o = p->source[n];
    if (o->kind == SCALAR && p->traits.with_mask && n + 1 == p->sources && n > 0) {
      lanes |= scalar_pair_shadow(p->c, o->index);
      continue;
    }
    for (unsigned part = 0; part < words_of(o); part++) {
      Lanes buffer;
      const uint32_t *shadow = shadow_of(p, n, part, buffer);
      uint32_t bits = o->kind == VECTOR && words_of(o) == 1 ? relevant_bits(p, n) : ~0u;
      for (int l = 0; l < LANES; l++) lanes |= (uint64_t)((shadow[l] & bits) != 0) << l;
    }
  }
  if (p->i->row->flags & READS_VCC) lanes |= scalar_pair_shadow(p->c, VCC);
  if (p->i->row->flags & READS_SCC && scalar_shadow(p->c, SCC)) lanes = ~0ull;
  return lanes;
}

static void put_exec_shadow(const Step *p, uint64_t bits) {
  if (!(bits & p->w->live)) return;
  report_undefined(p->w, p->i, p->origin, __builtin_ctzll(bits & p->w->live), "exec", "decides which lanes are active");
}

static void put_scalar_result(const Step *p, const Operand *o, uint64_t bits) {
  if (o->index == EXEC) put_exec_shadow(p, bits);
  else
    for (unsigned k = 0; k < words_of(o) && k < 2; k++)
      put_scalar_shadow(p->c, o->index + k, (uint32_t)(bits >> 32 * k), p->origin);
}

static void put_vector_result(const Step *p, const Operand *o, unsigned part, const uint32_t *shadow) {
  if (part == 0 && words_of(o) == 1) put(&p->c->shadow, p->i, o, shadow);
  else put_lanes(&p->c->shadow, o->index + part, shadow);
  note_row(p->c, o->index + part, p->origin);
}

/* A result of 16 bits on gfx1100 leaves the other half of its register as it is. */
static void put_half_shadow(const Step *p, const Operand *o, unsigned part, uint32_t *shadow) {
  uint32_t kept = !p->i->half_result ? 0 : o->half == UPPER_HALF ? 0xffff : 0xffff0000u;
  const uint32_t *row = p->c->shadow.v[o->index];
  for (int l = 0; kept && l < LANES; l++) shadow[l] = (shadow[l] & ~kept) | (row[l] & kept);
  put_vector_result(p, o, part, shadow);
}

static uint32_t smeared(uint32_t bits) { return bits ? ~0u << __builtin_ctz(bits) : 0; }

static void whole_lanes(const Step *p) {
  uint64_t lanes = doubtful_lanes(p), exec = EXEC_OF(p->w);
  for (unsigned n = 0; n < p->i->operand_count; n++) {
    if (!(p->i->writes >> n & 1)) continue;
    const Operand *o = &p->i->operand[n];
    uint64_t bits = p->i->row->flags & COPIES_SCALAR ? (lanes ? ~0ull : 0) : lanes & exec;
    if (o->kind == SCALAR) put_scalar_result(p, o, bits);
    for (unsigned part = 0; o->kind == VECTOR && part < words_of(o); part++) {
      Lanes shadow;
      for (int l = 0; l < LANES; l++) shadow[l] = lanes >> l & 1 ? ~0u : 0;
      put_half_shadow(p, o, part, shadow);
    }
  }
  if (p->i->row->flags & WRITES_VCC)
    put_scalar_result(p, &(Operand){.kind = SCALAR, .count = 2, .index = VCC}, lanes & exec);
}

/* Results of one word (or of two, for moves and what has 64 bits) of which the undefined bits are known. */
static void precise_lanes(const Step *p) {
  const Operand *o = &p->i->operand[0];
  Effect effect = p->traits.effect;
  Lanes result, buffers[6];
  const uint32_t *s[3] = {NULL}, *v[3] = {NULL};
  if (effect == MOVE) {
    for (unsigned part = 0; part < words_of(o); part++) {
      memcpy(result, shadow_of(p, 0, part < words_of(p->source[0]) ? part : 0, buffers[0]), sizeof result);
      put_vector_result(p, o, part, result);
    }
    return;
  }
  unsigned first = p->traits.reversed && effect != ALIGN && effect != HALVES ? 1 : 0;
  if (effect == SHIFT_LEFT_64 || effect == SHIFT_RIGHT_64) {
    const uint32_t *amount = value_of(p, 0, 0, buffers[0]), *amount_shadow = shadow_of(p, 0, 0, buffers[1]);
    const uint32_t *low = shadow_of(p, 1, 0, buffers[2]), *high = shadow_of(p, 1, 1, buffers[3]);
    Lanes upper;
    for (int l = 0; l < LANES; l++) {
      uint64_t bits = (uint64_t)high[l] << 32 | low[l];
      unsigned by = amount[l] & 63;
      bits = amount_shadow[l] & 63 ? ~0ull : effect == SHIFT_LEFT_64 ? bits << by : bits >> by;
      result[l] = (uint32_t)bits;
      upper[l] = (uint32_t)(bits >> 32);
    }
    put_vector_result(p, o, 0, result);
    put_vector_result(p, o, 1, upper);
    return;
  }
  if (effect == SUM_64) { /* factors of 32 bits or a shifted one of 64, and an addend of 64 */
    const uint32_t *a = shadow_of(p, 0, 0, buffers[0]), *b = shadow_of(p, 1, 0, buffers[1]);
    const uint32_t *low = shadow_of(p, 2, 0, buffers[2]), *high = shadow_of(p, 2, 1, buffers[3]), *a_high = NULL;
    bool shifts = p->i->row->results == 1;
    if (shifts) a_high = shadow_of(p, 0, 1, buffers[4]);
    Lanes upper;
    uint64_t carry = 0;
    for (int l = 0; l < LANES; l++) {
      uint64_t bits = (uint64_t)high[l] << 32 | low[l] | a[l];
      bits |= !shifts ? b[l] : (uint64_t)a_high[l] << 32 | (b[l] ? 1 : 0);
      if (bits) bits = ~0ull << __builtin_ctzll(bits), carry |= 1ull << l;
      result[l] = (uint32_t)bits;
      upper[l] = (uint32_t)(bits >> 32);
    }
    put_vector_result(p, o, 0, result);
    put_vector_result(p, o, 1, upper);
    if (!shifts) put_scalar_result(p, &p->i->operand[1], carry & EXEC_OF(p->w));
    return;
  }
  for (unsigned n = 0; n < p->sources && n < 3; n++) {
    s[n] = shadow_of(p, n, 0, buffers[n]);
    v[n] = value_of(p, n, 0, buffers[3 + n]);
  }
  bool halves = p->traits.bits == LOW_HALF;
  for (unsigned n = 0; halves && n < p->sources && n < 3; n++) {
    int shift = p->i->op_sel >> n & 1 ? 16 : 0;
    for (int l = 0; l < LANES; l++) {
      uint32_t half = s[n][l] >> shift & 0xffff;
      buffers[n][l] = effect == SHIFT_ARITHMETIC ? (uint32_t)(int16_t)half : half;
      buffers[3 + n][l] = v[n][l] >> shift;
    }
    s[n] = buffers[n], v[n] = buffers[3 + n];
  }
  bool to_upper = halves && p->i->op_sel >> p->sources & 1;
  uint32_t kept = to_upper ? 0xffff : halves && p->i->row->detail == KEEPS_UPPER_HALF ? 0xffff0000u : 0;
  const uint32_t *data = s[first], *amount = v[!first], *doubt = s[!first], *before = p->c->shadow.v[o->index];
  uint32_t amounts = halves ? 15 : 31;
  for (int l = 0; l < LANES; l++) {
    uint32_t bits = 0;
    switch (effect) {
      case BIT_AND: bits = (s[0][l] & s[1][l]) | (s[0][l] & v[1][l]) | (v[0][l] & s[1][l]); break;
      case BIT_OR: { /* two or three */
        uint32_t ones = (v[0][l] & ~s[0][l]) | (v[1][l] & ~s[1][l]) | (p->sources > 2 ? v[2][l] & ~s[2][l] : 0);
        bits = (s[0][l] | s[1][l] | (p->sources > 2 ? s[2][l] : 0)) & ~ones;
        break;
      }
      case BIT_XOR: bits = s[0][l] | (p->sources > 1 ? s[1][l] : 0); break;
      case AND_THEN_OR:
        bits = (s[0][l] & s[1][l]) | (s[0][l] & v[1][l]) | (v[0][l] & s[1][l]);
        bits = (bits | s[2][l]) & ~(v[2][l] & ~s[2][l]) & ~(v[0][l] & v[1][l] & ~s[0][l] & ~s[1][l]);
        break;
      case SHIFT_THEN_OR:
        bits = (s[1][l] & 31 ? ~0u : s[0][l] << (v[1][l] & 31)) | s[2][l];
        bits &= ~(v[2][l] & ~s[2][l]);
        break;
      case SHIFT_LEFT: bits = doubt[l] & amounts ? ~0u : data[l] << (amount[l] & amounts); break;
      case SHIFT_RIGHT: bits = doubt[l] & amounts ? ~0u : data[l] >> (amount[l] & amounts); break;
      case SHIFT_ARITHMETIC: bits = doubt[l] & amounts ? ~0u : (uint32_t)((int32_t)data[l] >> (amount[l] & amounts)); break;
      case ALIGN: {
        unsigned by = p->traits.reversed ? (v[2][l] & 3) * 8 : v[2][l] & 31;
        bits = s[2][l] & (p->traits.reversed ? 3 : 31) ? ~0u : (uint32_t)(((uint64_t)s[0][l] << 32 | s[1][l]) >> by);
        break;
      }
      case EXTRACT:
      case EXTRACT_SIGNED: {
        unsigned at = v[1][l] & 31, width = v[2][l] & 31;
        if ((s[1][l] | s[2][l]) & 31) bits = ~0u;
        else if (width) {
          bits = s[0][l] >> at;
          if (effect == EXTRACT_SIGNED) bits = (uint32_t)((int32_t)(bits << (32 - width)) >> (32 - width));
          else bits &= (1u << width) - 1;
        }
        break;
      }
      case INSERT: bits = (v[0][l] & s[1][l]) | (~v[0][l] & s[2][l]) | (s[0][l] & (v[1][l] ^ v[2][l])); break;
      case PERMUTE:
        for (unsigned n = 0; n < 4; n++) {
          uint32_t select = v[2][l] >> 8 * n & 0xff, byte = 0;
          uint64_t both = (uint64_t)s[0][l] << 32 | s[1][l];
          if (s[2][l] >> 8 * n & 0xff) byte = 0xff;
          else if (select < 8) byte = (uint32_t)(both >> 8 * select) & 0xff;
          else if (select < 12) byte = both >> (16 * (select - 8) + 15) & 1 ? 0xff : 0;
          bits |= byte << 8 * n;
        }
        break;
      case SUM:
        bits = s[0][l] | s[1][l] | (p->sources > 2 ? s[2][l] : 0);
        bits = smeared(bits);
        break;
      case TRUTH_TABLE: { /* a bit is undefined if what its sources can be gives both results */
        uint32_t possible[2] = {0, 0};
        for (unsigned n = 0; n < 8; n++) {
          uint32_t fits = ~0u;
          for (unsigned k = 0; k < 3; k++) fits &= s[k][l] | (n >> (2 - k) & 1 ? v[k][l] : ~v[k][l]);
          possible[p->i->format >> n & 1] |= fits;
        }
        bits = possible[0] & possible[1];
        break;
      }
      case PACK:
        bits = (p->i->op_sel & 1 ? s[0][l] >> 16 : s[0][l] & 0xffff) |
               (p->i->op_sel & 2 ? s[1][l] & 0xffff0000u : s[1][l] << 16);
        break;
      default: bits = ~0u;
    }
    if (halves) bits = (bits & 0xffff) << (to_upper ? 16 : 0) | (before[l] & kept);
    result[l] = bits;
  }
  put_vector_result(p, o, 0, result);
}

/* Packed halves, or dwords: each of the result from those of the sources that op_sel and op_sel_hi choose (or from one
 * source each, for conversions). */
static void halves_of_lanes(const Step *p) {
  const Operand *o = &p->i->operand[0];
  bool dwords = words_of(o) == 2;
  Lanes results[2] = {{0}}, buffer;
  uint32_t chosen[2] = {p->i->op_sel, p->i->has_op_sel_hi ? p->i->op_sel_hi : ~0u};
  for (unsigned n = 0; n < p->sources; n++)
    for (unsigned half = 0; half < 2; half++) {
      unsigned upper = chosen[half] >> n & 1;
      const uint32_t *shadow = shadow_of(p, n, dwords && words_of(p->source[n]) > 1 ? upper : 0, buffer);
      uint32_t *result = results[dwords ? half : 0];
      for (int l = 0; l < LANES; l++) {
        if (dwords) result[l] |= shadow[l] ? ~0u : 0;
        else if (p->traits.reversed) result[l] |= shadow[l] && half == n ? 0xffffu << 16 * n : 0;
        else result[l] |= shadow[l] >> 16 * upper & 0xffff ? 0xffffu << 16 * half : 0;
      }
    }
  for (unsigned half = 0; half <= dwords; half++) put_vector_result(p, o, half, results[half]);
}

static void selected_lanes(const Step *p) { /* v_cndmask_b32: the mask is the last source, or VCC */
  Lanes result, buffers[4];
  const uint32_t *s0 = shadow_of(p, 0, 0, buffers[0]), *s1 = shadow_of(p, 1, 0, buffers[1]);
  const uint32_t *v0 = value_of(p, 0, 0, buffers[2]), *v1 = value_of(p, 1, 0, buffers[3]);
  unsigned mask = p->sources > 2 && p->source[2]->kind == SCALAR ? p->source[2]->index : VCC;
  bool literal = p->sources > 2 && p->source[2]->kind == LITERAL;
  uint64_t bits = literal ? (uint64_t)p->source[2]->bits : scalar_pair_of(p->w, mask);
  uint64_t doubt = literal ? 0 : scalar_pair_shadow(p->c, mask);
  for (int l = 0; l < LANES; l++)
    result[l] = doubt >> l & 1 ? (v0[l] ^ v1[l]) | s0[l] | s1[l] : bits >> l & 1 ? s1[l] : s0[l];
  if (p->i->half_result) /* which half of the chosen source it is does not matter: either way the whole half counts */
    for (int l = 0; l < LANES; l++) {
      uint32_t of = bits >> l & 1 ? relevant_bits(p, 1) : relevant_bits(p, 0);
      result[l] = (doubt >> l & 1 ? result[l] : result[l] & of) ? ~0u : 0;
    }
  put_half_shadow(p, &p->i->operand[0], 0, result);
}

static void copied_lane(const Step *p) {
  const Operand *from = p->source[0], *to = &p->i->operand[0];
  uint64_t exec = EXEC_OF(p->w);
  if (from->kind != VECTOR) {
    put_scalar_result(p, to, from->kind == SCALAR ? scalar_shadow(p->c, from->index) : 0);
    return;
  }
  unsigned lane = exec ? (unsigned)__builtin_ctzll(exec) : 0;
  bool doubt = false;
  if (p->traits.effect == READ_LANE && p->sources > 1) {
    lane = scalar_operand(p->w, p->source[1]) & (lanes_of_wave(p->w->launch->arch) - 1);
    doubt = p->source[1]->kind == SCALAR && scalar_shadow(p->c, p->source[1]->index) & 63;
  }
  put_scalar_result(p, to, doubt ? 0xffffffff : p->c->shadow.v[from->index][lane]);
}

static void written_lane(const Step *p) { /* v_writelane_b32 vdst, value, lane */
  const Operand *to = &p->i->operand[0];
  const Operand *value = &p->i->operand[1], *select = &p->i->operand[2];
  unsigned lane = scalar_operand(p->w, select) & (lanes_of_wave(p->w->launch->arch) - 1);
  p->c->shadow.v[to->index][lane] = value->kind == SCALAR ? scalar_shadow(p->c, value->index) : 0;
  if (select->kind == SCALAR && scalar_shadow(p->c, select->index) & 63)
    for (int l = 0; l < LANES; l++) p->c->shadow.v[to->index][l] = ~0u;
  note_row(p->c, to->index, p->origin);
}

/* D = A·B + C. Lane l has a row of A and a column of B, both of number l modulo rows; what it gets of D is in its
 * column. Register n of a lane is in row n / 4 · 8 + l / 32 · 4 + n % 4 (32 rows) or l / 16 · 4 + n (16 rows; of WMMA
 * 2 · n + l / 16). */
static void matrix_lanes(const Step *p) {
  const Operand *d = &p->i->operand[0], *a = &p->i->operand[1], *b = &p->i->operand[2];
  WaveChecks *c = p->c;
  unsigned rows = p->traits.which;
  uint64_t of_a = 0, of_b = 0;
  bool others = false;
  for (unsigned k = 0; a->kind == VECTOR && k < words_of(a); k++) of_a |= c->undefined_lanes[a->index + k];
  for (unsigned k = 0; b->kind == VECTOR && k < words_of(b); k++) of_b |= c->undefined_lanes[b->index + k];
  const Operand *third = p->i->operand_count > 3 ? &p->i->operand[3] : NULL;
  bool accumulates = third && (third->kind != VECTOR || words_of(third) == words_of(d));
  for (unsigned n = accumulates ? 4 : 3; n < p->i->operand_count; n++) { /* scales, indices */
    const Operand *o = &p->i->operand[n];
    if (o->kind == VECTOR) for (unsigned k = 0; k < words_of(o); k++) others |= c->undefined_lanes[o->index + k] != 0;
    if (o->kind == SCALAR) others |= scalar_shadow(c, o->index) != 0;
  }
  bool known = (rows == 32 && words_of(d) == 16) || (rows == 16 && (words_of(d) == 4 || begins(p->i->row->name, "v_wmma_")));
  if ((p->i->blgp || p->i->cbsz || p->i->abid) && !strstr(p->i->row->name, "f8f6f4")) known = false;
  uint64_t rows_of_a = 0, columns_of_b = 0;
  for (unsigned l = 0; known && l < LANES; l++) {
    if (of_a >> l & 1) rows_of_a |= 1ull << l % rows;
    if (of_b >> l & 1) columns_of_b |= 1ull << l % rows;
  }
  bool everything = others || (!known && (of_a | of_b));
  uint64_t columns = columns_of_b;
  if (known) for (unsigned l = rows; l < LANES; l += rows) columns |= columns_of_b << l;
  const Operand *before = accumulates ? third : p->i->row->flags & READS_RESULT ? d : NULL;
  for (unsigned n = 0; n < words_of(d); n++) {
    uint64_t lanes = everything ? ~0ull : columns;
    if (before && before->kind == VECTOR) lanes |= c->undefined_lanes[before->index + n];
    for (unsigned l = 0; known && rows_of_a && l < LANES; l++) {
      unsigned row = rows == 32 ? n / 4 * 8 + l / 32 * 4 + n % 4 : words_of(d) == 8 ? 2 * n + l / 16 : l / 16 * 4 + n;
      if (rows_of_a >> row & 1) lanes |= 1ull << l;
    }
    unsigned index = d->index + n;
    uint64_t bit = 1ull << index % 64;
    c->undefined_lanes[index] = lanes;
    c->has_row[index / 64] &= ~bit;
    c->undefined[index / 64] = lanes ? c->undefined[index / 64] | bit : c->undefined[index / 64] & ~bit;
    if (lanes) c->origin[index] = p->origin;
  }
}

/* ---- Scalars ----------------------------------------------------------------------------------------------------- */
static void scalar_step(const Step *p) {
  const Instruction *i = p->i;
  WaveChecks *c = p->c;
  const Operand *to = i->operand_count && i->writes & 1 ? &i->operand[0] : NULL;
  uint64_t s[3] = {0}, v[3] = {0}, any = 0;
  bool wide = to ? words_of(to) == 2 : false;
  for (unsigned n = 0; n < p->sources && n < 3; n++) {
    const Operand *o = p->source[n];
    if (o->kind == SCALAR) {
      s[n] = words_of(o) >= 2 ? scalar_pair_shadow(c, o->index) : scalar_shadow(c, o->index);
      v[n] = words_of(o) >= 2 ? scalar_pair_of(p->w, o->index) : scalar_of(p->w, o->index);
      for (unsigned k = 2; k < words_of(o); k++) any |= scalar_shadow(c, o->index + k);
    } else {
      v[n] = wide ? (uint64_t)o->bits : literal_32(o);
    }
    any |= s[n];
  }
  bool scc = scalar_shadow(c, SCC) != 0, reads_scc = i->row->flags & READS_SCC;
  if (reads_scc && scc) any |= 1;
  uint64_t all = wide ? ~0ull : 0xffffffff, bits, value = 0, exec = EXEC_OF(p->w);
  bool by_value = true; /* SCC tells whether the result is 0 */
  switch (p->traits.effect) {
    case SCALAR_MOVE: bits = s[0]; break;
    case SCALAR_AND: bits = (s[0] & s[1]) | (s[0] & v[1]) | (v[0] & s[1]), value = v[0] & v[1]; break;
    case SCALAR_OR: bits = (s[0] & s[1]) | (s[0] & ~v[1]) | (~v[0] & s[1]), value = v[0] | v[1]; break;
    case SCALAR_XOR: bits = s[0] | s[1], value = v[0] ^ v[1]; break;
    case SCALAR_AND_NOT: bits = (s[0] & s[1]) | (s[0] & ~v[1]) | (v[0] & s[1]), value = v[0] & ~v[1]; break;
    case SCALAR_OR_NOT: bits = (s[0] & s[1]) | (s[0] & v[1]) | (~v[0] & s[1]), value = v[0] | ~v[1]; break;
    case SCALAR_SHIFT_LEFT:
      bits = s[1] & (wide ? 63 : 31) ? all : s[0] << (v[1] & (wide ? 63 : 31));
      value = v[0] << (v[1] & (wide ? 63 : 31));
      break;
    case SCALAR_SHIFT_RIGHT:
      bits = s[1] & (wide ? 63 : 31) ? all : s[0] >> (v[1] & (wide ? 63 : 31));
      value = v[0] >> (v[1] & (wide ? 63 : 31));
      break;
    case SCALAR_SELECT: bits = scc ? (v[0] ^ v[1]) | s[0] | s[1] : p->w->s[SCC] ? s[0] : s[1]; break;
    case SCALAR_SUM:
      bits = s[0] | s[1];
      bits = bits ? ~0ull << __builtin_ctzll(bits) : 0;
      by_value = false;
      break;
    case SAVE_AND:
    case SAVE_OR:
    case SAVE_ANYTHING:
      bits = p->traits.effect == SAVE_AND ? s[0] & exec : p->traits.effect == SAVE_OR ? s[0] & ~exec : s[0];
      put_exec_shadow(p, bits);
      if (to) put_scalar_result(p, to, 0);
      put_scalar_shadow(c, SCC, 0, NULL);
      return;
    default: bits = any ? all : 0, by_value = false;
  }
  bits &= all;
  if (i->row->flags & WRITES_SCC) {
    bool unsure = by_value ? bits && !(value & ~bits & all) : any != 0;
    put_scalar_shadow(c, SCC, unsure, p->origin);
  }
  if (i->row->flags & WRITES_VCC) put_scalar_result(p, &(Operand){.kind = SCALAR, .count = 2, .index = VCC}, bits);
  for (unsigned n = 0; n < i->operand_count; n++) {
    if (!(i->writes >> n & 1) || i->operand[n].kind != SCALAR) continue;
    const Operand *o = &i->operand[n];
    if (words_of(o) <= 2) put_scalar_result(p, o, n == 0 ? bits : any ? ~0ull : 0);
    else
      for (unsigned k = 0; k < words_of(o); k++) put_scalar_shadow(c, o->index + k, any ? ~0u : 0, p->origin);
  }
}

/* A branch, or a jump to an address. */
static void check_decision(Wave *w, const Instruction *i) {
  WaveChecks *c = w->checks;
  if (i->row->flags & READS_SCC && scalar_shadow(c, SCC)) {
    report_undefined_scalar(w, i, SCC, "decides a branch");
    put_scalar_shadow(c, SCC, 0, NULL);
  }
  if (i->row->flags & READS_VCC) {
    uint64_t bits = scalar_pair_shadow(c, VCC) & w->live;
    if (bits && !(VCC_OF(w) & ~bits)) {
      report_undefined_scalar(w, i, bits & 0xffffffff ? VCC : VCC + 1, "decides a branch");
      put_scalar_shadow(c, VCC, 0, NULL);
      put_scalar_shadow(c, VCC + 1, 0, NULL);
    }
  }
  for (unsigned n = 0; n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    if (i->reads >> n & 1 && o->kind == SCALAR) use_undefined_scalar(w, i, o->index, words_of(o), "decides a branch");
  }
}

static const Instruction *origin_of(const WaveChecks *c, const Operand *o) {
  for (unsigned k = 0; k < words_of(o); k++) {
    if (o->kind == VECTOR && c->undefined_lanes[o->index + k])
      return c->origin[o->index + k];
    if (o->kind == SCALAR && scalar_shadow(c, o->index + k)) return c->scalar_origin[o->index + k];
  }
  return NULL;
}

static NO_INLINE void propagate(Wave *w, const Instruction *i, unsigned reads) {
  WaveChecks *c = w->checks;
  Step p = {.w = w, .c = c, .i = i, .traits = traits_of(i->row)};
  unsigned flags = i->row->flags;
  bool has_vector = false, has_literal = false;
  for (unsigned n = 0; n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    has_vector |= o->kind == VECTOR;
    has_literal |= o->kind == LITERAL;
    bool also_result = i->writes >> n & 1;
    if (reads >> n & 1 && o->kind != NO_OPERAND) {
      if (!p.origin) p.origin = origin_of(c, o);
      if (!also_result) p.source[p.sources++] = o;
    } else if (!also_result && o->kind == LITERAL) {
      p.source[p.sources++] = o;
    }
  }
  /* what is only kept in part (DPP, SDWA) is the business of `put` */
  if (p.traits.effect == AS_IT_IS && has_literal) p.traits.effect = ANYTHING;
  bool precise = p.traits.effect != ANYTHING && p.traits.effect != HALVES && p.traits.effect != COMPARE;
  unsigned also_read = (flags & READS_RESULT ? 1 : 0) | (flags & ALL_RESULTS_READ ? 3 : 0);
  for (unsigned n = 0; n < i->operand_count && !precise; n++)
    if (i->writes >> n & 1 && also_read >> n & 1) p.source[p.sources++] = &i->operand[n];
  if (!p.origin && flags & READS_VCC)
    p.origin = c->shadow.s[VCC] ? c->scalar_origin[VCC] : c->shadow.s[VCC + 1] ? c->scalar_origin[VCC + 1] : NULL;
  if (!p.origin && flags & READS_SCC && c->shadow.s[SCC]) p.origin = c->scalar_origin[SCC];
  if (p.traits.effect == MATRIX) {
    matrix_lanes(&p);
    return;
  }
  if (!has_vector) {
    scalar_step(&p);
    return;
  }
  for (unsigned n = 0; n < i->operand_count; n++)
    for (unsigned k = 0; i->operand[n].kind == VECTOR && k < words_of(&i->operand[n]); k++)
      prepare_row(c, i->operand[n].index + k);
  uint64_t exec = flags & IGNORES_EXEC ? ~0ull : EXEC_OF(w);
  c->shadow.s[EXEC] = (uint32_t)exec;
  c->shadow.s[EXEC + 1] = (uint32_t)(exec >> 32);
  switch (p.traits.effect) {
    case READ_LANE:
    case READ_FIRST_LANE: copied_lane(&p); break;
    case WRITE_LANE: written_lane(&p); break;
    case SELECT: selected_lanes(&p); break;
    case HALVES: halves_of_lanes(&p); break;
    case AS_IT_IS:
      i->execute(&c->shadow, i);
      for (unsigned n = 0; n < i->operand_count; n++)
        for (unsigned k = 0; i->operand[n].kind == VECTOR && k < words_of(&i->operand[n]); k++)
          note_row(c, i->operand[n].index + k, p.origin);
      break;
    case ANYTHING:
    case COMPARE: whole_lanes(&p); break;
    default:
      if (p.traits.effect >= SCALAR_MOVE || (i->half_result && p.traits.bits == LOW_HALF)) whole_lanes(&p);
      else {
        precise_lanes(&p);
        /* the carry of a sum */
        uint64_t lanes = 0;
        for (unsigned n = 1; n < i->operand_count; n++)
          if (i->writes >> n & 1 && i->operand[n].kind == SCALAR) {
            lanes = lanes ? lanes : doubtful_lanes(&p);
            put_scalar_result(&p, &i->operand[n], lanes & exec);
          }
      }
  }
}

/* ---- Non-finite values ------------------------------------------------------------------------------------------- */
static bool finite_16(uint32_t half) { return (half & 0x7c00) != 0x7c00; }
static bool finite_brain(uint32_t half) { return (half & 0x7f80) != 0x7f80; }
static bool finite_32(uint32_t word) { return (word & 0x7f800000) != 0x7f800000; }
/* Whatever of the 8-bit formats it is: NaN of E4M3 (0x7f, and 0x80 without negative zero), the top exponent of E5M2. */
static bool finite_8(uint32_t word) {
  for (int n = 0; n < 32; n += 8) {
    uint32_t byte = word >> n & 0xff;
    if (byte == 0x80 || (byte & 0x7c) == 0x7c) return false;
  }
  return true;
}

static bool is_finite(SourceType type, uint32_t word) {
  switch (type) {
    case FLOAT_32: return finite_32(word);
    case FLOAT_16: return finite_16(word) && finite_16(word >> 16);
    case BRAIN_16: return finite_brain(word) && finite_brain(word >> 16);
    case MIXED: return finite_32(word) && finite_16(word) && finite_16(word >> 16) && finite_brain(word >> 16);
    case FLOAT_8: return finite_8(word);
    default: return true;
  }
}

/* Of f64 only the upper words tell. */
static uint64_t finite_lanes_of(const Step *p, unsigned n, SourceType type, bool raw) {
  const Operand *o = p->source[n];
  uint64_t lanes = 0;
  unsigned words = words_of(o);
  if (o->kind == LITERAL) {
    bool finite = o->is_float ? isfinite(o->real) : is_finite(type, (uint32_t)o->bits);
    return finite ? ~0ull : 0;
  }
  for (unsigned part = 0; part < words; part++) {
    Lanes buffer;
    if (type == FLOAT_64 && part % 2 == 0) continue;
    const uint32_t *row = raw && o->kind == VECTOR ? p->w->v[o->index + part] : value_of(p, n, part, buffer);
    for (int l = 0; l < LANES; l++) {
      bool finite = type == FLOAT_64 ? (row[l] & 0x7ff00000) != 0x7ff00000 : is_finite(type, row[l]);
      lanes |= (uint64_t)!finite << l;
    }
  }
  return ~lanes;
}

static SourceType type_of_result(uint8_t type) {
  switch (type) {
    case RESULT_F32: case RESULT_PACKED_F32: return FLOAT_32;
    case RESULT_F16: case RESULT_PACKED_F16: return FLOAT_16;
    case RESULT_BF16: case RESULT_PACKED_BF16: return BRAIN_16;
    case RESULT_F64: return FLOAT_64;
    default: return NO_FLOATS;
  }
}

static NO_INLINE void trace_sources(Wave *w, const Instruction *i, unsigned reads) {
  Step p = {.w = w, .c = w->checks, .i = i, .traits = traits_of(i->row)};
  uint64_t lanes = ~0ull;
  bool matrix = i->row->flags & IS_MATRIX;
  for (unsigned n = 0; n < i->operand_count; n++) {
    if (!(reads >> n & 1) && i->operand[n].kind != LITERAL) continue;
    if (i->operand[n].kind == NO_OPERAND) continue;
    p.source[0] = &i->operand[n];
    bool result = i->writes >> n & 1, accumulator = matrix && (result || n == 3);
    SourceType type = result || accumulator ? type_of_result(i->row->result_type) : (SourceType)p.traits.source_type;
    if (p.traits.with_mask && i->operand[n].kind == SCALAR && words_of(&i->operand[n]) == 2) continue;
    lanes &= finite_lanes_of(&p, 0, type, matrix);
  }
  uint64_t all = lanes_of_wave(w->launch->arch) == LANES ? ~0ull : UINT32_MAX;
  w->checks->finite = matrix ? ((lanes & all) == all ? ~0ull : 0) : lanes;
}

static NO_INLINE void trace_results(Wave *w, const Instruction *i) {
  const Operand *o = &i->operand[0];
  if (o->kind != VECTOR) return;
  uint8_t type = i->row->result_type;
  uint64_t lanes = (i->row->flags & (IS_MATRIX | IGNORES_EXEC) ? w->live : EXEC_OF(w)) & w->checks->finite;
  unsigned lane;
  for (unsigned k = 0; k < words_of(o) && lanes; k++) {
    if (type == RESULT_F64 && k % 2 == 0) continue;
    const uint32_t *row = w->v[o->index + k];
    FOR_LANES(lane, lanes) {
      bool finite = true, infinite = false;
      uint32_t word = row[lane];
      switch (type) {
        case RESULT_F32: case RESULT_PACKED_F32: finite = finite_32(word), infinite = !(word & 0x7fffff); break;
        case RESULT_F16: {
          uint32_t half = i->sdwa && i->dst_select == WORD_1 ? word >> 16 : i->op_sel & 8 ? word >> 16 : word;
          finite = finite_16(half), infinite = !(half & 0x3ff);
          break;
        }
        case RESULT_BF16: finite = finite_brain(word), infinite = !(word & 0x7f); break;
        case RESULT_PACKED_F16:
          finite = finite_16(word) && finite_16(word >> 16);
          infinite = !((finite_16(word) ? word >> 16 : word) & 0x3ff);
          break;
        case RESULT_PACKED_BF16:
          finite = finite_brain(word) && finite_brain(word >> 16);
          infinite = !((finite_brain(word) ? word >> 16 : word) & 0x7f);
          break;
        case RESULT_F64:
          finite = (word & 0x7ff00000) != 0x7ff00000;
          infinite = !(word & 0xfffff) && !w->v[o->index + k - 1][lane];
          break;
      }
      if (finite) continue;
      Finding f = {.kind = NON_FINITE, .at = i, .lane = (int)lane, .other_wave = -1, .other_lane = -1};
      char name[16];
      name_vector(name, sizeof name, o->index + k);
      snprintf(f.note, sizeof f.note, "%s is %s, its sources are finite", name, infinite ? "infinite" : "NaN");
      report(w, &f);
      return;
    }
  }
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */
static void look_at(Instruction *i, unsigned first, unsigned count) {
  for (unsigned r = first; r < first + count; r++) {
    unsigned n = 0;
    while (n < LOOKED_AT && i->looked_at[n] && i->word[n] != r / 64) n++;
    if (n == LOOKED_AT) i->word[n = 0] = ALWAYS;
    else i->word[n] = (uint8_t)(r / 64);
    i->looked_at[n] |= 1ull << r % 64;
  }
}

void choose_looked_at(Instruction *i) {
  unsigned flags = i->row->flags;
  if (flags & IS_MEMORY) return;
  for (unsigned n = 0; n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    if (o->kind == VECTOR) look_at(i, o->index, words_of(o));
    if (o->kind != SCALAR || o->index + words_of(o) > SCALAR_REGISTERS) continue;
    look_at(i, VECTOR_REGISTERS + o->index, words_of(o));
    if (o->index == VCCZ) look_at(i, VECTOR_REGISTERS + VCC, 2);
  }
  if (flags & (READS_VCC | WRITES_VCC)) look_at(i, VECTOR_REGISTERS + VCC, 2);
  if (flags & (READS_SCC | WRITES_SCC)) look_at(i, VECTOR_REGISTERS + SCC, 1);
}

void check_before(Wave *w, const Instruction *i) {
  WaveChecks *c = w->checks;
  unsigned flags = i->row->flags, reads = i->reads, writes = i->writes;
  if (flags & READS_RESULT) reads |= 1;
  if (flags & ALL_RESULTS_READ) reads |= 3;
  uint64_t exec = EXEC_OF(w);
  uint64_t written = flags & (IGNORES_EXEC | IS_MATRIX) ? ~0ull : exec;
  uint64_t read = i->dpp || flags & (COPIES_SCALAR | ALL_RESULTS_READ) ? ~0ull : written;
  bool doubtful = false;
  for (unsigned n = 0; n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    bool is_read = reads >> n & 1, is_written = writes >> n & 1;
    if (!is_read && !is_written) continue;
    unsigned count = words_of(o), index = o->index;
    if (o->kind == VECTOR) {
      if (any_of(c->in_flight, index, count))
        check_flight(w, i, index, count, is_read ? read : written, is_read ? "read" : "overwritten");
      if (!any_of(c->undefined, index, count)) continue;
      if (is_read)
        for (unsigned r = index; r < index + count; r++) doubtful |= (c->undefined_lanes[r] & read) != 0;
      /* results that are written in part */
      else doubtful |= i->dpp || i->sdwa || i->half_result;
    } else if (o->kind == SCALAR && index + count <= SCALAR_REGISTERS) {
      if (any_of(c->scalar_in_flight, index, count))
        check_scalar_flight(w, i, index, count, is_read ? "read" : "overwritten");
      if (is_read) doubtful |= any_of(c->scalar_undefined, index, count) || (index == VCCZ && scalar_shadow(c, VCCZ));
    }
  }
  if (flags & READS_VCC) {
    if (any_of(c->scalar_in_flight, VCC, 2)) check_scalar_flight(w, i, VCC, 2, "read");
    doubtful |= any_of(c->scalar_undefined, VCC, 2);
  }
  if (flags & READS_SCC) doubtful |= any_of(c->scalar_undefined, SCC, 1);
  if (flags & WRITES_VCC && any_of(c->scalar_in_flight, VCC, 2)) check_scalar_flight(w, i, VCC, 2, "overwritten");
  if (w->launch->traced && i->row->result_type != PLAIN_BITS) trace_sources(w, i, reads);

  if (doubtful) {
    if (flags & IS_BRANCH) check_decision(w, i);
    else {
      propagate(w, i, reads);
      return;
    }
  }
  for (unsigned n = 0; n < i->operand_count; n++) {
    if (!(writes >> n & 1)) continue;
    const Operand *o = &i->operand[n];
    unsigned count = words_of(o);
    if (o->kind == VECTOR) {
      if (any_of(c->undefined, o->index, count))
        for (unsigned r = o->index; r < o->index + count; r++) define_lanes(c, r, written);
    } else if (o->kind == SCALAR && o->index + count <= SCALAR_REGISTERS) {
      if (any_of(c->scalar_undefined, o->index, count))
        for (unsigned s = o->index; s < o->index + count; s++) put_scalar_shadow(c, s, 0, NULL);
    }
  }
  if (flags & WRITES_SCC && any_of(c->scalar_undefined, SCC, 1)) put_scalar_shadow(c, SCC, 0, NULL);
  if (flags & WRITES_VCC && any_of(c->scalar_undefined, VCC, 2)) {
    put_scalar_shadow(c, VCC, 0, NULL);
    put_scalar_shadow(c, VCC + 1, 0, NULL);
  }
}

void check_after(Wave *w, const Instruction *i) {
  if (w->launch->traced && i->row->result_type != PLAIN_BITS && w->checks->finite) trace_results(w, i);
}
