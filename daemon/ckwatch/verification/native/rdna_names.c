/* RDNA has names of its own for most of what gfx9 has. Those are looked up by gfx9's name, and their operands become
 * what gfx9 expects. */
#include <stdio.h>
#include <string.h>

#include "machine.h"

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
    {"s_and_not1_saveexec_b64", "s_andn2_saveexec_b64"}, {"s_and_not0_saveexec_b64", "s_andn1_saveexec_b64"},
    {"s_or_not1_saveexec_b64", "s_orn2_saveexec_b64"}, {"s_or_not0_saveexec_b64", "s_orn1_saveexec_b64"},
    {"s_and_not1_wrexec_b64", "s_andn2_wrexec_b64"}, {"s_and_not0_wrexec_b64", "s_andn1_wrexec_b64"},
    {"s_or_not1_b64", "s_orn2_b64"}, {"s_ctz_i32_b32", "s_ff1_i32_b32"}, {"s_ctz_i32_b64", "s_ff1_i32_b64"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"}, {"s_clz_i32_u64", "s_flbit_i32_b64"}, {"s_cls_i32", "s_flbit_i32"},
    {"s_cls_i32_i64", "s_flbit_i32_i64"},
    {"s_load_b32", "s_load_dword"}, {"s_load_b64", "s_load_dwordx2"}, {"s_load_b128", "s_load_dwordx4"},
    {"s_load_b256", "s_load_dwordx8"}, {"s_load_b512", "s_load_dwordx16"},
    {"s_buffer_load_b32", "s_buffer_load_dword"}, {"s_buffer_load_b64", "s_buffer_load_dwordx2"},
    {"s_buffer_load_b128", "s_buffer_load_dwordx4"}, {"s_buffer_load_b256", "s_buffer_load_dwordx8"},
    {"s_buffer_load_b512", "s_buffer_load_dwordx16"},
    /* gfx12 */
    {"s_load_b96", "s_load_dwordx3"}, {"s_buffer_load_b96", "s_buffer_load_dwordx3"},
    {"v_mad_co_u64_u32", "v_mad_u64_u32"}, {"v_mad_co_i64_i32", "v_mad_i64_i32"}, {"s_add_co_u32", "s_add_u32"},
    {"s_add_co_i32", "s_add_i32"}, {"s_sub_co_u32", "s_sub_u32"}, {"s_sub_co_i32", "s_sub_i32"},
    {"s_get_pc_i64", "s_getpc_b64"}, {"s_set_pc_i64", "s_setpc_b64"}, {"s_swap_pc_i64", "s_swappc_b64"},
    {"s_call_i64", "s_call_b64"}, {"v_dot2acc_f32_bf16", "v_dot2c_f32_bf16"},
    {"s_add_co_ci_u32", "s_addc_u32"}, {"s_sub_co_ci_u32", "s_subb_u32"}, {"s_addk_co_i32", "s_addk_i32"},
};
/* What follows `global`, `flat`, `scratch` and `buffer`. */
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
    ATOMIC_NAME("dec", "dec", "u"), {"_atomic_add_f32", "_atomic_add_f32"}, {"_atomic_min_f32", "_atomic_min_f32"},
    {"_atomic_max_f32", "_atomic_max_f32"}, {"_atomic_cmpswap_f32", "_atomic_cmpswap_f32"},
    {"_atomic_csub_u32", "_atomic_sub_clamp"}, {"_atomic_sub_clamp_u32", "_atomic_sub_clamp"},
    {"_atomic_cond_sub_u32", "_atomic_cond_sub"}, {"_atomic_pk_add_f16", "_atomic_pk_add_f16"},
    {"_atomic_pk_add_bf16", "_atomic_pk_add_bf16"}, {"_atomic_add_f64", "_atomic_add_f64"},
    {"_atomic_min_f64", "_atomic_min_f64"}, {"_atomic_max_f64", "_atomic_max_f64"}, {"_load_tr_b128", "_load_tr_b128"}, {"_prefetch_b8", "_prefetch_b8"}, {"_inv", "_inv"}, {"_wb", "_wb"},
    {"_wbinv", "_wbinv"}, {"_gl0_inv", "_gl0_inv"}, {"_gl1_inv", "_gl1_inv"},
};
/* What LDS instructions begin with; the longer ones come first. */
static const Name lds_names[] = {
    {"ds_load_2addr_stride64_", "ds_read2st64_"}, {"ds_load_2addr_", "ds_read2_"}, {"ds_load_", "ds_read_"},
    {"ds_store_2addr_stride64_", "ds_write2st64_"}, {"ds_store_2addr_", "ds_write2_"}, {"ds_store_", "ds_write_"},
    {"ds_storexchg_2addr_stride64_", "ds_wrxchg2st64_"}, {"ds_storexchg_2addr_", "ds_wrxchg2_"},
    {"ds_storexchg_", "ds_wrxchg_"}, {"ds_cmpstore_", "ds_cmpst_"},
};

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* Spelled as on gfx9, but not the same: formats of buffers, results of 16 bits that are written as 32. */
static bool is_refused(const char *name) {
  return begins(name, "tbuffer_") || begins(name, "v_sat_pk_u8_i16") || begins(name, "ds_append") ||
         begins(name, "ds_consume");
}
/* The last source has 16 bits here; of 32 the lower ones are the same. */
static bool has_short_source(const char *name) {
  return begins(name, "v_cmp_class_") || begins(name, "v_cmpx_class_") || begins(name, "v_alignb");
}

static const Row *row_of(const char *name) {
  static const Row *const tables[] = {rdna_rows, rdna4_rows, wmma_rows};
  for (size_t n = 0; n < sizeof tables / sizeof *tables; n++)
    for (const Row *row = tables[n]; row->name; row++)
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
  char *number = strstr(name, "_num_"); /* gfx12: the minimum or maximum is a number if there is one */
  if (number) memmove(number, number + strlen("_num"), strlen(number + strlen("_num")) + 1);
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    if (strcmp(name, names[n].own) == 0) return row_of(names[n].usual);
  size_t prefix = begins(name, "global_") ? 6 : begins(name, "flat_") ? 4 : begins(name, "scratch_") ? 7
                  : begins(name, "buffer_") ? 6 : 0;
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
  bool halves = i->row->detail == KEEPS_UPPER_HALF || i->row->detail == CLEARS_UPPER_HALF;
  if (halves && begins(name, "v_") && !(i->row->flags & (IS_MEMORY | IS_MATRIX))) i->half_result = true;
  if (begins(name, "v_cvt_sr_")) i->op_sel = (uint8_t)(i->op_sel << (i->op_sel < 4 ? 2 : 0)); /* byte_sel */
  if (has_short_source(name) && o[i->operand_count - 1].half == UPPER_HALF) return false;
  /* what a lane without a source writes into the mask is not documented */
  return !(i->dpp && begins(name, "v_cmp") && !i->bound_ctrl);
}

/* ---- Pairs: both read before either writes ------------------------------------------------------------------------- */
static bool reads(const Instruction *i, uint32_t index, uint32_t count) {
  for (int n = 0; n < i->operand_count; n++)
    if (i->reads >> n & 1 && i->operand[n].kind == VECTOR && i->operand[n].index < index + count &&
        index < i->operand[n].index + (i->operand[n].count ? i->operand[n].count : 1u))
      return true;
  return false;
}

/* Puts the two parts into an order in which the second does not read what the first writes. Where there is none, the
 * first writes to a register that no program has. */
bool order_pair(Instruction parts[3], uint8_t *count) {
  *count = 2;
  if (!reads(&parts[1], parts[0].operand[0].index, parts[0].operand[0].count)) return true;
  if (reads(&parts[0], parts[1].operand[0].index, parts[1].operand[0].count)) {
    if (parts[0].operand[0].count > 1 || parts[1].operand[0].count > 1) return false;
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
    parts[0].operand[0].index = SPARE_OF_PAIRS;
    parts[2].operand[1] = (Operand){.kind = VECTOR, .index = SPARE_OF_PAIRS, .count = 1, .plain = true};
  }
  return true;
}
