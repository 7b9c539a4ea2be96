/* gfx1100: waves of 32 lanes, and names of its own for most of what gfx9 has. Those are looked up by gfx9's name; here
 * are these names, and the instructions that gfx9 has not: pairs (VOPD), WMMA, waits, masks of 32 bits.
 *
 * Semantics: "RDNA3 Instruction Set Architecture"; of the matrices' layouts chapter 7.9, and AMD's Matrix Instruction
 * Calculator for gfx1100. */
#include <stdio.h>

#include "checks.h"
#include "values.h"

#define FUNCTION(name) static void execute_##name(Wave *w, const Instruction *i)
#define EACH for (int l = 0; l < LANES; l++)

/* ---- Names --------------------------------------------------------------------------------------------------------- */
typedef struct {
  const char *own, *usual;
} Name;

/* Whole names, without suffixes. */
static const Name names[] = {
    {"v_add_nc_u32", "v_add_u32"}, {"v_sub_nc_u32", "v_sub_u32"}, {"v_subrev_nc_u32", "v_subrev_u32"},
    {"v_add_nc_i32", "v_add_i32"}, {"v_sub_nc_i32", "v_sub_i32"}, {"v_add_nc_u16", "v_add_u16"},
    {"v_sub_nc_u16", "v_sub_u16"}, {"v_add_nc_i16", "v_add_i16"}, {"v_sub_nc_i16", "v_sub_i16"},
    {"v_add_co_ci_u32", "v_addc_co_u32"}, {"v_sub_co_ci_u32", "v_subb_co_u32"},
    {"v_subrev_co_ci_u32", "v_subbrev_co_u32"}, {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
    {"v_cvt_pk_norm_i16_f32", "v_cvt_pknorm_i16_f32"}, {"v_cvt_pk_norm_u16_f32", "v_cvt_pknorm_u16_f32"},
    {"v_cvt_pk_norm_i16_f16", "v_cvt_pknorm_i16_f16"}, {"v_cvt_pk_norm_u16_f16", "v_cvt_pknorm_u16_f16"},
    {"v_cvt_nearest_i32_f32", "v_cvt_rpi_i32_f32"}, {"v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32"},
    {"v_clz_i32_u32", "v_ffbh_u32"}, {"v_cls_i32", "v_ffbh_i32"}, {"v_ctz_i32_b32", "v_ffbl_b32"},
    {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"}, {"v_dot2acc_f32_f16", "v_dot2c_f32_f16"},
    {"v_cmp_t_f16", "v_cmp_tru_f16"}, {"v_cmp_t_f32", "v_cmp_tru_f32"}, {"v_cmp_t_f64", "v_cmp_tru_f64"},
    {"v_cmpx_t_f16", "v_cmpx_tru_f16"}, {"v_cmpx_t_f32", "v_cmpx_tru_f32"}, {"v_cmpx_t_f64", "v_cmpx_tru_f64"},
    {"s_and_not1_b32", "s_andn2_b32"}, {"s_and_not1_b64", "s_andn2_b64"}, {"s_or_not1_b32", "s_orn2_b32"},
    {"s_or_not1_b64", "s_orn2_b64"}, {"s_ctz_i32_b32", "s_ff1_i32_b32"}, {"s_ctz_i32_b64", "s_ff1_i32_b64"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"}, {"s_clz_i32_u64", "s_flbit_i32_b64"}, {"s_cls_i32", "s_flbit_i32"},
    {"s_cls_i32_i64", "s_flbit_i32_i64"},
    {"s_load_b32", "s_load_dword"}, {"s_load_b64", "s_load_dwordx2"}, {"s_load_b128", "s_load_dwordx4"},
    {"s_load_b256", "s_load_dwordx8"}, {"s_load_b512", "s_load_dwordx16"},
};
/* What follows `global`, `flat` and `scratch`. */
static const Name memory_names[] = {
    {"_load_u8", "_load_ubyte"}, {"_load_i8", "_load_sbyte"}, {"_load_u16", "_load_ushort"},
    {"_load_i16", "_load_sshort"}, {"_load_b32", "_load_dword"}, {"_load_b64", "_load_dwordx2"},
    {"_load_b96", "_load_dwordx3"}, {"_load_b128", "_load_dwordx4"}, {"_load_d16_u8", "_load_ubyte_d16"},
    {"_load_d16_hi_u8", "_load_ubyte_d16_hi"}, {"_load_d16_i8", "_load_sbyte_d16"},
    {"_load_d16_hi_i8", "_load_sbyte_d16_hi"}, {"_load_d16_b16", "_load_short_d16"},
    {"_load_d16_hi_b16", "_load_short_d16_hi"}, {"_store_b8", "_store_byte"}, {"_store_b16", "_store_short"},
    {"_store_d16_hi_b8", "_store_byte_d16_hi"}, {"_store_d16_hi_b16", "_store_short_d16_hi"},
    {"_store_b32", "_store_dword"}, {"_store_b64", "_store_dwordx2"}, {"_store_b96", "_store_dwordx3"},
    {"_store_b128", "_store_dwordx4"},
#define ATOMIC_NAME(own, usual, type) \
  {"_atomic_" own "_" type "32", "_atomic_" usual}, {"_atomic_" own "_" type "64", "_atomic_" usual "_x2"}
    ATOMIC_NAME("swap", "swap", "b"), ATOMIC_NAME("cmpswap", "cmpswap", "b"), ATOMIC_NAME("add", "add", "u"),
    ATOMIC_NAME("sub", "sub", "u"), ATOMIC_NAME("min", "smin", "i"), ATOMIC_NAME("min", "umin", "u"),
    ATOMIC_NAME("max", "smax", "i"), ATOMIC_NAME("max", "umax", "u"), ATOMIC_NAME("and", "and", "b"),
    ATOMIC_NAME("or", "or", "b"), ATOMIC_NAME("xor", "xor", "b"), ATOMIC_NAME("inc", "inc", "u"),
    ATOMIC_NAME("dec", "dec", "u"), {"_atomic_add_f32", "_atomic_add_f32"},
};
/* What LDS instructions begin with; the longer ones come first. */
static const Name lds_names[] = {
    {"ds_load_2addr_stride64_", "ds_read2st64_"}, {"ds_load_2addr_", "ds_read2_"}, {"ds_load_", "ds_read_"},
    {"ds_store_2addr_stride64_", "ds_write2st64_"}, {"ds_store_2addr_", "ds_write2_"}, {"ds_store_", "ds_write_"},
    {"ds_storexchg_2addr_stride64_", "ds_wrxchg2st64_"}, {"ds_storexchg_2addr_", "ds_wrxchg2_"},
    {"ds_storexchg_", "ds_wrxchg_"}, {"ds_cmpstore_", "ds_cmpst_"},
};

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* Spelled as on gfx9, but not the same: descriptors of buffers, results of 16 bits that are written as 32. */
static bool is_refused(const char *name) {
  return begins(name, "buffer_") || begins(name, "tbuffer_") || begins(name, "s_buffer_") ||
         begins(name, "v_sat_pk_u8_i16") || begins(name, "ds_append") || begins(name, "ds_consume");
}
/* The last source has 16 bits here; of 32 the lower ones are the same. */
static bool has_short_source(const char *name) {
  return begins(name, "v_cmp_class_") || begins(name, "v_cmpx_class_") || begins(name, "v_alignb");
}

static const Row *row_of(const char *name) {
  for (const Row *row = rdna_rows; row->name; row++)
    if (strcmp(row->name, name) == 0) return row;
  return is_refused(name) ? NULL : find_row(name);
}

const Row *find_rdna_row(const char *printed) {
  static const char *const suffixes[] = {"_e64_dpp", "_e32", "_e64", "_dpp"};
  char name[64], usual[80];
  size_t length = strlen(printed);
  if (length >= sizeof name) return NULL;
  if (begins(printed, "v_dual_")) length = (size_t)snprintf(name, sizeof name, "v_%s", printed + strlen("v_dual_"));
  else memcpy(name, printed, length + 1);
  for (size_t n = 0; n < sizeof suffixes / sizeof *suffixes; n++) {
    size_t cut = strlen(suffixes[n]);
    if (length > cut && strcmp(name + length - cut, suffixes[n]) == 0) {
      name[length - cut] = 0;
      break;
    }
  }
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    if (strcmp(name, names[n].own) == 0) return row_of(names[n].usual);
  size_t prefix = begins(name, "global_") ? 6 : begins(name, "flat_") ? 4 : begins(name, "scratch_") ? 7 : 0;
  if (prefix) {
    for (size_t n = 0; n < sizeof memory_names / sizeof *memory_names; n++)
      if (strcmp(name + prefix, memory_names[n].own) == 0) {
        snprintf(usual, sizeof usual, "%.*s%s", (int)prefix, name, memory_names[n].usual);
        return row_of(usual);
      }
    return NULL;
  }
  for (size_t n = 0; n < sizeof lds_names / sizeof *lds_names; n++)
    if (begins(name, lds_names[n].own)) {
      snprintf(usual, sizeof usual, "%s%s", lds_names[n].usual, name + strlen(lds_names[n].own));
      return row_of(usual);
    }
  return row_of(name);
}

/* ---- Operands that gfx9 has otherwise ------------------------------------------------------------------------------ */

/* Makes of the operands what the rows of gfx9 expect. False for what is not understood. */
bool adapt_to_rdna(const char *name, Instruction *i) {
  Operand *o = i->operand;
  if (begins(name, "v_cmpx_")) { /* writes EXEC alone */
    memmove(o + 1, o, i->operand_count++ * sizeof *o);
    o[0] = (Operand){.kind = SCALAR, .index = EXEC, .count = 1};
  }
  if (begins(name, "v_dual_cndmask_b32")) o[i->operand_count++] = (Operand){.kind = SCALAR, .index = VCC, .count = 1};
  if (begins(name, "ds_cmpstore_")) { /* the new value comes first */
    int first = i->row->results + 1;
    Operand compared = o[first + 1];
    o[first + 1] = o[first];
    o[first] = compared;
  }
  int results = i->row->results, sources = i->operand_count - results;
  for (int n = 0; n < i->operand_count; n++) {
    if (o[n].half == UPPER_HALF) i->op_sel |= (uint8_t)(1 << (n < results ? sources : n - results));
    if (o[n].half && n < results) i->half_result = true;
  }
  if (has_short_source(name) && o[i->operand_count - 1].half == UPPER_HALF) return false;
  /* what a lane without a source writes into the mask is not documented */
  return !(i->dpp && begins(name, "v_cmp") && !i->bound_ctrl);
}

/* ---- Pairs: both read before either writes ------------------------------------------------------------------------- */
static bool reads(const Instruction *i, uint32_t index) {
  for (int n = 0; n < i->operand_count; n++)
    if (i->reads >> n & 1 && i->operand[n].kind == VECTOR && i->operand[n].index == index) return true;
  return false;
}

/* Puts the two parts into an order in which the second does not read what the first writes. Where there is none, the
 * first writes to a register that no program has. */
bool order_pair(Instruction parts[3], uint8_t *count) {
  enum { SPARE = 256 };
  *count = 2;
  if (!reads(&parts[1], parts[0].operand[0].index)) return true;
  if (reads(&parts[0], parts[1].operand[0].index)) {
    if (parts[0].row->flags & READS_RESULT && parts[1].row->flags & READS_RESULT) return false;
    *count = 3;
  }
  if (*count == 2 || parts[0].row->flags & READS_RESULT) {
    Instruction first = parts[0];
    parts[0] = parts[1];
    parts[1] = first;
  }
  if (*count == 3) {
    parts[2] = parts[0];
    parts[2].row = find_row("v_mov_b32");
    parts[2].execute = parts[2].row->execute;
    parts[2].operand_count = 2;
    parts[2].reads = 2, parts[2].writes = 1;
    parts[0].operand[0].index = SPARE;
    parts[2].operand[1] = (Operand){.kind = VECTOR, .index = SPARE, .count = 1, .plain = true};
  }
  return true;
}

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
FUNCTION(nothing) { (void)w, (void)i; }
/* expcnt in bits 2:0, lgkmcnt in 9:4, vmcnt in 15:10. All ones: do not wait. Stores are counted by themselves, and
 * nothing in a wave needs to wait for them. */
FUNCTION(s_waitcnt) {
  if (!w->checks) return;
  int lgkm = i->offset1 >> 4 & 63, vm = i->offset1 >> 10 & 63;
  check_wait(w, vm == 63 ? -1 : vm, lgkm == 63 ? -1 : lgkm, -1);
}
FUNCTION(s_round_mode) { /* everything is rounded to nearest */
  if (i->offset1 & 15) unknown_row.execute(w, i);
}
FUNCTION(s_denorm_mode) { w->mode = (w->mode & ~0xf0u) | (i->offset1 & 15) << 4; }

/* ---- Vector -------------------------------------------------------------------------------------------------------- */
FUNCTION(v_cndmask_b16) {
  Lanes buffer[2], d;
  const uint32_t *from[2];
  uint32_t mask = scalar_operand(w, &i->operand[3]);
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
    uint32_t value = mask >> (l & 31) & 1 ? from[1][l] : from[0][l];
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

/* ---- WMMA: D = A·B + C, 16×16×16 ----------------------------------------------------------------------------------- */

/* Lane l has row l % 16 of A and column l % 16 of B, with K in order; lanes 16…31 repeat lanes 0…15. Register r of lane l
 * is row 2 · r + l / 16 and column l % 16 of C and D; 16-bit ones are in the half that op_sel names. */
enum { WMMA_F16, WMMA_BF16, WMMA_I8, WMMA_I4 };
enum { NARROW = 0x100 }; /* Row.detail: the type of A and B, and whether C and D have it as well */

static double wmma_element(const uint32_t (*registers)[LANES], uint32_t type, bool is_signed, int k, int lane) {
  switch (type) {
    case WMMA_F16: return (double)f32_of_f16(registers[k / 2][lane] >> k % 2 * 16);
    case WMMA_BF16: return (double)f32_of_bf16(registers[k / 2][lane] >> k % 2 * 16 & 0xffff);
    default: {
      int width = type == WMMA_I8 ? 8 : 4, in_word = 32 / width;
      uint32_t bits = registers[k / in_word][lane] << (32 - width - k % in_word * width);
      return is_signed ? (double)((int32_t)bits >> (32 - width)) : (double)(bits >> (32 - width));
    }
  }
}

FUNCTION(wmma) {
  uint32_t type = i->row->detail & 15;
  bool narrow = i->row->detail & NARROW, integer = type >= WMMA_I8, high = i->op_sel >> 2 & 1;
  const Operand *c = &i->operand[3];
  const char *why = NULL;
  double all[2][16][16]; /* rows of A, columns of B */
  for (int n = 0; n < 2; n++) {
    const Operand *o = &i->operand[1 + n];
    const uint32_t(*registers)[LANES] = &w->v[o->index];
    for (int r = 0; r < o->count; r++)
      if (memcmp(registers[r], registers[r] + 16, 16 * sizeof(uint32_t)) != 0)
        why = "lanes 16 to 31 do not repeat lanes 0 to 15";
    for (int lane = 0; lane < 16; lane++)
      for (int k = 0; k < 16; k++) all[n][lane][k] = wmma_element(registers, type, i->neg_lo >> n & 1, k, lane);
  }
  if (!integer && (i->neg_lo | i->neg_hi)) why = "negated matrices";
  if (why) {
    Finding f = {.kind = UNKNOWN_INSTRUCTION, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1};
    strcpy(f.note, why);
    report_and_stop(w, &f);
    return;
  }
  uint32_t results[8][32], d = i->operand[0].index;
  for (int r = 0; r < 8; r++)
    for (int l = 0; l < 32; l++) {
      const double *a = all[0][2 * r + l / 16], *b = all[1][l % 16];
      uint32_t before = c->kind == VECTOR ? w->v[c->index + r][l] >> (narrow && high ? 16 : 0)
                                          : narrow && c->kind == LITERAL ? literal_16(c) : scalar_operand(w, c);
      if (integer) {
        int64_t sum = (int32_t)before;
        for (int k = 0; k < 16; k++) sum += (int64_t)(a[k] * b[k]);
        if (i->clamp) sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
        results[r][l] = (uint32_t)sum;
        continue;
      }
      float sum = !narrow            ? f32_of_bits(before)
                  : type == WMMA_F16 ? f32_of_f16(before)
                                     : f32_of_bf16(before & 0xffff);
      for (int k = 0; k < 16; k++) sum = (float)((double)sum + a[k] * b[k]);
      if (!narrow) results[r][l] = bits_of_f32(sum);
      else {
        uint32_t half = type == WMMA_F16 ? f16_of_f32(sum) : bf16_of_f32(sum);
        uint32_t old = w->v[d + (uint32_t)r][l];
        results[r][l] = high ? (old & 0xffff) | half << 16 : (old & 0xffff0000u) | half;
      }
    }
  for (int r = 0; r < 8; r++) memcpy(w->v[d + (uint32_t)r], results[r], sizeof results[r]);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */
#define SAVES(name) {"s_" #name "_saveexec_b32", execute_s_##name##_saveexec_b32, 1, IGNORES_EXEC | WRITES_SCC, PLAIN_BITS, 0}
#define NOTHING(name) {name, execute_nothing, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0}
#define ENCODED(name) {#name, execute_##name, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0}
#define WMMA(name, flags, result, type) {"v_wmma_" name, execute_wmma, 1, IS_MATRIX | (flags), result, type}

const Row rdna_rows[] = {
    SAVES(and), SAVES(or), SAVES(xor), SAVES(nand), SAVES(nor), SAVES(xnor), SAVES(and_not0), SAVES(and_not1),
    SAVES(or_not0), SAVES(or_not1),
    {"s_pack_hl_b32_b16", execute_s_pack_hl_b32_b16, 1, IGNORES_EXEC, PLAIN_BITS, 0},
    NOTHING("s_delay_alu"), NOTHING("s_clause"), NOTHING("s_waitcnt_vscnt"), NOTHING("s_waitcnt_depctr"),
    NOTHING("s_set_inst_prefetch_distance"), NOTHING("buffer_gl0_inv"), NOTHING("buffer_gl1_inv"),
    ENCODED(s_waitcnt), ENCODED(s_round_mode), ENCODED(s_denorm_mode),
    {"v_cndmask_b16", execute_v_cndmask_b16, 1, 0, PLAIN_BITS, 0},
    {"v_permlane16_b32", execute_v_permlane16_b32, 1, READS_RESULT, PLAIN_BITS, 0},
    {"v_permlanex16_b32", execute_v_permlanex16_b32, 1, READS_RESULT, PLAIN_BITS, 0},
    WMMA("f32_16x16x16_f16", 0, RESULT_F32, WMMA_F16), WMMA("f32_16x16x16_bf16", 0, RESULT_F32, WMMA_BF16),
    WMMA("f16_16x16x16_f16", READS_RESULT, PLAIN_BITS, WMMA_F16 | NARROW),
    WMMA("bf16_16x16x16_bf16", READS_RESULT, PLAIN_BITS, WMMA_BF16 | NARROW),
    WMMA("i32_16x16x16_iu8", 0, PLAIN_BITS, WMMA_I8), WMMA("i32_16x16x16_iu4", 0, PLAIN_BITS, WMMA_I4),
    {NULL, NULL, 0, 0, PLAIN_BITS, 0},
};
