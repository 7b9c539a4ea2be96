/* The checks of a wave: values that nothing has defined, results that are used before they have arrived.
 *
 * A value may be undefined as long as it is only moved and computed with: lanes that are masked later compute garbage
 * in correct programs. It is reported when it is stored to memory, is an address, decides a branch or becomes part of
 * EXEC. Which bits of a result are undefined is tried: those that other values of the undefined bits change.
 */
#include <stdio.h>
#include <stdlib.h>

#include "checks.h"
#include "ordering.h"
#include "values.h"

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

void name_register(char *text, size_t room, unsigned index) {
  if (index < VECTOR_REGISTERS) name_vector(text, room, index);
  else name_scalar(text, room, index - VECTOR_REGISTERS);
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

static inline void undefine_scalars(WaveChecks *c, unsigned first, unsigned end, uint32_t bits) {
  for (unsigned s = first; s < end; s++) c->shadow.s[s] = bits;
  for (unsigned s = first, here; s < end; s += here) {
    here = end - s < 64 - s % 64 ? end - s : 64 - s % 64;
    c->scalar_undefined[s / 64] |= ~0ull >> (64 - here) << s % 64;
  }
}

void reset_wave_checks(Wave *w) {
  WaveChecks *c = w->checks;
  for (int r = 0; r < VECTOR_REGISTERS; r++) c->undefined_lanes[r] = w->live;
  memset(c->undefined, w->live ? 0xff : 0, sizeof c->undefined);
  memset(c->has_row, 0, sizeof c->has_row);
  memset(c->origin, 0, sizeof c->origin);
  memset(c->scalar_undefined, 0, sizeof c->scalar_undefined);
  memset(c->scalar_origin, 0, sizeof c->scalar_origin);
  memset(c->shadow.s, 0, sizeof c->shadow.s);
  /* what is left out, the hardware or the trap handler has set */
  undefine_scalars(c, 0, FLAT_SCRATCH, ~0u);
  undefine_scalars(c, VCC, TTMP0, ~0u);
  undefine_scalars(c, M0, M0 + 1, ~0u);
  undefine_scalars(c, SCC, SCC + 1, 1);
  memset(c->in_flight, 0, sizeof c->in_flight);
  memset(c->scalar_in_flight, 0, sizeof c->scalar_in_flight);
  for (int n = 0; n < COUNTERS; n++)
    c->first[n] = c->count[n] = c->lds_serial[n] = c->lds_done[n] = 0;
  for (int n = 0; n < LDS_OPERATION_KINDS; n++) c->lds_operations[n].count = c->lds_operations[n].noted = 0;
  c->always = ~0ull;
  c->overlap = false;
  c->spans_next = 0;
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
static inline Outstanding *outstanding_at(WaveChecks *c, int counter, uint32_t n) {
  return &c->outstanding[counter][(c->first[counter] + n) % MOST_OUTSTANDING];
}

/* Bits from `index` on, in two words at most. */
static inline void set_bits(uint64_t *bits, unsigned index, uint64_t mask) {
  bits[index / 64] |= mask << index % 64;
  if (index % 64 && mask >> (64 - index % 64)) bits[index / 64 + 1] |= mask >> (64 - index % 64);
}
static inline void clear_bits(uint64_t *bits, unsigned index, uint64_t mask) {
  bits[index / 64] &= ~(mask << index % 64);
  if (index % 64 && mask >> (64 - index % 64)) bits[index / 64 + 1] &= ~(mask >> (64 - index % 64));
}
static inline uint64_t registers_of(const Outstanding *o) { return ((1ull << o->count) - 1) & ~(uint64_t)o->told; }

/* All that is in flight. */
static NO_INLINE void look_at_outstanding(WaveChecks *c) {
  memset(c->in_flight, 0, sizeof c->in_flight);
  c->overlap = false;
  for (int counter = 0; counter < COUNTERS; counter++)
    for (uint32_t n = 0; n < c->count[counter]; n++) {
      const Outstanding *o = outstanding_at(c, counter, n);
      if (!o->count) continue;
      c->overlap |= any_of(c->in_flight, o->first, o->count);
      set_bits(c->in_flight, o->first, registers_of(o));
    }
}

static inline void retire(WaveChecks *c, int counter) {
  const Outstanding *o = outstanding_at(c, counter, 0);
  c->first[counter] = (c->first[counter] + 1) % MOST_OUTSTANDING;
  c->count[counter]--;
  if (o->lds_serial) c->lds_done[counter] = o->lds_serial;
  if (!o->count) return;
  if (__builtin_expect(c->overlap, 0)) look_at_outstanding(c);
  else clear_bits(c->in_flight, o->first, registers_of(o));
}

void expect_halves(Wave *w, const Instruction *i, int counter, unsigned index, unsigned count, unsigned halves,
                   uint64_t lanes, uint32_t lds_serial) {
  WaveChecks *c = w->checks;
  if (!is_counted(w->launch->arch, counter, count, i)) return;
  if (!lanes) count = 0;
  if (c->count[counter] == arch_facts[w->launch->arch].most_outstanding[counter]) retire(c, counter);
  *outstanding_at(c, counter, c->count[counter]++) = (Outstanding){
      .at = i, .lanes = lanes, .lds_serial = lds_serial, .first = (uint16_t)index, .count = (uint8_t)count,
      .halves = (uint8_t)halves};
  if (!count) return;
  c->overlap |= any_of(c->in_flight, index, count);
  set_bits(c->in_flight, index, (1ull << count) - 1);
}

/* The last operation of a counter whose result in a half of a register has not arrived; NULL when there is none. */
static Outstanding *load_in_flight(WaveChecks *c, int counter, unsigned index, unsigned half, uint64_t lanes) {
  for (uint32_t n = c->count[counter]; n--;) {
    Outstanding *o = outstanding_at(c, counter, n);
    if (index - o->first < o->count && !(o->told >> (index - o->first) & 1) && o->halves >> half & 1 && o->lanes & lanes)
      return o;
  }
  return NULL;
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
  if (vm == 0 && !is_rdna(w->launch->arch)) order_wait(w);
  while (vm >= 0 && c->count[VM] > (uint32_t)vm) retire(c, VM);
  while (lgkm >= 0 && c->count[LGKM] > (uint32_t)lgkm) retire(c, LGKM);
  if (lgkm == 0 && !is_gfx12(w->launch->arch)) check_scalar_wait(w);
}

void check_scalar_wait(Wave *w) { memset(w->checks->scalar_in_flight, 0, sizeof w->checks->scalar_in_flight); }

static NO_INLINE void report_missing_wait(Wave *w, const Instruction *i, unsigned index, int counter,
                                          const Outstanding *load, uint64_t lanes, const char *use) {
  WaveChecks *c = w->checks;
  const Instruction *at = load->at;
  Finding f = {.kind = MISSING_WAIT, .at = i, .other = at, .lane = __builtin_ctzll(load->lanes & lanes),
               .other_wave = -1, .other_lane = -1};
  char name[16];
  name_vector(name, sizeof name, index);
  snprintf(f.note, sizeof f.note, "%s is %s before its load has arrived (%s)", name, use,
           arch_facts[w->launch->arch].counters[counter]);
  report(w, &f);
  for (counter = 0; counter < COUNTERS; counter++)
    for (uint32_t n = 0; n < c->count[counter]; n++) {
      Outstanding *o = outstanding_at(c, counter, n);
      if (o->at == at && index - o->first < o->count) o->told |= (uint16_t)(1u << (index - o->first));
    }
  look_at_outstanding(c);
}

void check_flight(Wave *w, const Instruction *i, unsigned index, unsigned count, unsigned halves, uint64_t lanes,
                  const char *use) {
  WaveChecks *c = w->checks;
  for (unsigned r = index; r < index + count; r++)
    for (unsigned half = 0; half < 2 && c->in_flight[r / 64] >> r % 64 & 1; half++) {
      if (!(halves >> half & 1)) continue;
      int counter = VM;
      const Outstanding *load = load_in_flight(c, VM, r, half, lanes);
      if (!load) load = load_in_flight(c, counter = LGKM, r, half, lanes);
      if (load) report_missing_wait(w, i, r, counter, load, lanes, use);
    }
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
    snprintf(f.note, sizeof f.note, "%s is %s before its load has arrived (%s)", name, use,
             arch_facts[w->launch->arch].counters[COUNTERS]);
    report(w, &f);
    c->scalar_in_flight[s / 64] &= ~(1ull << s % 64);
  }
}

/* ---- Uses by memory instructions --------------------------------------------------------------------------------- */
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

void check_doubtful_address(Wave *w, const Instruction *i, const Operand *o, uint64_t lanes) {
  WaveChecks *c = w->checks;
  if (o->kind == VECTOR) {
    unsigned count = o->count ? o->count : 1;
    check_use(w, i, o->index, count, halves_of(o), lanes);
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

void check_result(Wave *w, const Instruction *i, unsigned index, unsigned count, unsigned halves, uint64_t lanes,
                  int counter) {
  WaveChecks *c = w->checks;
  if (counter < 0 || !any_of(c->in_flight, index, count)) return;
  /* of loads that are counted together, the later one wins */
  for (unsigned r = index; r < index + count; r++)
    for (unsigned half = 0; half < 2 && c->in_flight[r / 64] >> r % 64 & 1; half++)
      if (halves >> half & 1 && !load_in_flight(c, counter, r, half, ~0ull))
        check_flight(w, i, r, 1, 1u << half, lanes, "overwritten");
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

/* ---- What is known of rows --------------------------------------------------------------------------------------- */
/* What is in the sources, for non-finite values. */
typedef enum { NO_FLOATS, FLOAT_32, FLOAT_16, BRAIN_16, FLOAT_64, MIXED, FLOAT_8 } SourceType;

typedef struct {
  const Row *row;
  uint8_t source_type;
  uint8_t with_mask; /* the last source is a mask by lane */
  uint8_t block;     /* rows and columns of a matrix that is one block, or 0 */
} Traits;

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* The type that a name ends with, which is that of the sources. */
static const char *last_type(const char *name) {
  const char *type = strrchr(name, '_');
  return type ? type + 1 : name;
}

static Traits classify(const Row *row) {
  const char *name = row->name ? row->name : "", *type = last_type(name);
  Traits t = {.row = row, .with_mask = begins(name, "v_cndmask") || begins(name, "v_addc_co") ||
                                       begins(name, "v_subb_co") || begins(name, "v_subbrev_co")};
  if (row->flags & IS_MATRIX) {
    /* one block of 32×32 or 16×16 with 32-bit results */
    if (begins(name, "v_wmma_")) t.block = 16;
    if (begins(name, "v_mfma_") && !begins(name, "v_mfma_f64"))
      t.block = strstr(name, "32x32x") ? 32 : strstr(name, "16x16x") ? 16 : 0;
    t.source_type = strstr(name, "bf16") ? BRAIN_16 : strstr(name, "fp8") || strstr(name, "bf8") ||
                    strstr(name, "f8f6f4") ? FLOAT_8 : strstr(name, "_f16") ? FLOAT_16 : begins(name, "v_mfma_f64") ?
                    FLOAT_64 : strstr(name, "i8") ? NO_FLOATS : FLOAT_32;
  } else if (begins(name, "v_dot") || begins(name, "v_fma_mix") || begins(name, "v_mad_mix")) t.source_type = MIXED;
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
static uint32_t trait_count;

static uint32_t slot_of(const Row *row) { return (uint32_t)((uintptr_t)row * 0x9e3779b97f4a7c15ull >> 51); }

void classify_rows(const Row *rows) {
  for (const Row *row = rows; row->name && trait_count < TRAIT_SLOTS / 2; row++, trait_count++) {
    uint32_t slot = slot_of(row);
    while (all_traits[slot].row) slot = (slot + 1) % TRAIT_SLOTS;
    all_traits[slot] = classify(row);
  }
}

static Traits traits_of(const Row *row) {
  for (uint32_t slot = slot_of(row); all_traits[slot].row; slot = (slot + 1) % TRAIT_SLOTS)
    if (all_traits[slot].row == row) return all_traits[slot];
  return classify(row);
}

static unsigned words_of(const Operand *o) { return o->count ? o->count : 1; }

/* ---- Undefined bits of results ----------------------------------------------------------------------------------- */
/* What undefined bits are in a trial; the trials of the first kinds are one each. */
typedef enum { AS_THEY_ARE, INVERTED, ZEROS, ONES, INFINITE_F32, INFINITE_F16, NEGATIVE_ZERO, RANDOM, EQUAL = RANDOM + 3 } Filling;

static void put_exec_shadow(Wave *w, const Instruction *i, const Instruction *origin, uint64_t bits) {
  if (!(bits &= w->live)) return;
  report_undefined(w, i, origin, __builtin_ctzll(bits), "exec", "decides which lanes are active");
}

static uint32_t filled(uint32_t value, uint32_t undefined, Filling filling, bool upper, uint32_t seed, uint32_t equal) {
  uint32_t fill = 0;
  switch (filling) {
    case AS_THEY_ARE: return value;
    case INVERTED: return value ^ undefined;
    case ZEROS: break;
    case ONES: fill = ~0u; break;
    case INFINITE_F32: fill = upper ? 0x7f800000 : 0; break;
    case INFINITE_F16: fill = upper ? 0x7c007c00 : 0; break;
    case NEGATIVE_ZERO: fill = upper ? 0x80008000 : 0; break;
    case EQUAL: fill = equal; break;
    default:
      seed = (seed ^ (uint32_t)filling) * 0x9e3779b1u;
      seed = (seed ^ seed >> 15) * 0x85ebca77u;
      fill = seed ^ seed >> 13;
  }
  return (value & ~undefined) | (fill & undefined);
}

/* The undefined bits of one operand, or of all (`which` is -1), as `filling` says; EQUAL: as those of operand `like`. */
static void fill_operands(Wave *trial, const Wave *w, const Instruction *i, Filling filling, int which, int like) {
  WaveChecks *c = w->checks;
  for (unsigned n = 0; n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    if (which >= 0 && n != (unsigned)which) continue;
    for (unsigned part = 0; part < words_of(o); part++) {
      unsigned index = o->index + part;
      bool upper = part + 1 == words_of(o);
      const Operand *other = like < 0 || part >= words_of(&i->operand[like]) ? NULL : &i->operand[like];
      uint32_t seed = (n * 32 + part) * 0x10001u;
      if (o->kind == VECTOR && c->undefined_lanes[index]) {
        const uint32_t *undefined = c->shadow.v[index], *equal = other && other->kind == VECTOR ? w->v[other->index + part] : NULL;
        uint32_t same = !other || equal ? 0 : other->kind == SCALAR ? scalar_of(w, other->index + part)
                        : part ? (uint32_t)(other->bits >> 32) : literal_32(other);
        uint32_t *row = trial->v[index];
        unsigned turn = i->op_sel ? 16 : 0; /* the halves that are compared may be different ones */
        for (unsigned l = 0; l < LANES; l++) {
          uint32_t as = equal ? equal[l] : same;
          as = as >> turn | as << (32 - turn) % 32;
          row[l] = filled(w->v[index][l], undefined[l], filling, upper, seed + l * 0x2545f491u, as);
        }
      } else if (o->kind == SCALAR && index < SCALAR_REGISTERS && scalar_shadow(c, index) && index < VCCZ) {
        uint32_t equal = !other ? 0 : other->kind == SCALAR ? scalar_of(w, other->index + part)
                         : part ? (uint32_t)(other->bits >> 32) : literal_32(other);
        trial->s[index] = filled(w->s[index], c->shadow.s[index], filling, upper, seed, equal);
      }
    }
  }
}

static void fill_flags(Wave *trial, const Wave *w, Filling filling) {
  for (unsigned index = VCC; index <= SCC; index += index == VCC ? 1 : SCC - VCC - 1)
    trial->s[index] = filled(w->s[index], w->checks->shadow.s[index], filling, false, index, 0);
}

/* Undefined bits of results are those that other values of the undefined bits of operands change: the instruction is
 * executed with some. It is exact where one bit of each operand suffices, and says nothing of what cannot be seen; what
 * is copied, masked away, shifted out or in a half that is not read comes from how the instruction is executed alone.
 * What all operands do together is tried with patterns that decide comparisons and classes, and random ones. */
static NO_INLINE void try_instruction(Wave *w, const Instruction *i, const Instruction *origin) {
  enum { MOST_ROWS = 48 };
  static __thread Wave trial;
  static __thread Lanes before[MOST_ROWS], differ[MOST_ROWS];
  WaveChecks *c = w->checks;
  unsigned flags = i->row->flags, doubtful = 0;
  int numbers[MAX_OPERANDS];
  uint32_t scalars[SCALAR_REGISTERS], scalars_differ[SCALAR_REGISTERS] = {0};
  bool flag_doubt = flags & READS_VCC || flags & READS_SCC;
  for (unsigned n = 0; n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    bool doubt = false;
    flag_doubt |= o->kind == SCALAR && o->index == VCCZ;
    for (unsigned part = 0; part < words_of(o); part++) {
      if (o->kind == VECTOR && c->undefined_lanes[o->index + part]) prepare_row(c, o->index + part), doubt = true;
      if (o->kind == SCALAR && o->index + part < VCCZ) doubt |= scalar_shadow(c, o->index + part) != 0;
    }
    if (doubt) numbers[doubtful++] = (int)n;
  }
  trial.next = w->next;
  trial.id = w->id;
  trial.live = w->live;
  trial.mode = w->mode;
  trial.group = w->group;
  trial.launch = w->launch;
  trial.code = w->code;
  trial.checks = NULL;
  /* all together; each operand by itself; each like each other */
  unsigned together = EQUAL, alone = doubtful > 1 ? doubtful : 0, pairs = doubtful * i->operand_count;
  for (unsigned t = 0; t < together + alone + pairs; t++) {
    int which = t < together ? -1 : t < together + alone ? numbers[t - together] : numbers[(t - together - alone) / i->operand_count];
    int like = t < together + alone ? -1 : (int)((t - together - alone) % i->operand_count);
    Filling filling = t < together ? (Filling)t : like < 0 ? INVERTED : EQUAL;
    if (like >= 0 && (like == which || (unsigned)like < i->row->results || i->operand[like].kind == NO_OPERAND)) continue;
    memcpy(trial.s, w->s, sizeof trial.s);
    for (unsigned n = 0; n < i->operand_count; n++)
      for (unsigned part = 0; i->operand[n].kind == VECTOR && part < words_of(&i->operand[n]); part++)
        memcpy(trial.v[i->operand[n].index + part], w->v[i->operand[n].index + part], sizeof(Lanes));
    fill_operands(&trial, w, i, filling, which, like);
    if (flag_doubt && t < together) fill_flags(&trial, w, filling);
    trial.state = RUNNING;
    i->execute(&trial, i);
    unsigned rows = 0;
    for (unsigned n = 0; n < i->operand_count; n++)
      for (unsigned part = 0; i->writes >> n & 1 && i->operand[n].kind == VECTOR && part < words_of(&i->operand[n]) && rows < MOST_ROWS; part++, rows++) {
        const uint32_t *row = trial.v[i->operand[n].index + part];
        if (t == 0) memcpy(before[rows], row, sizeof(Lanes)), memset(differ[rows], 0, sizeof(Lanes));
        else for (int l = 0; l < LANES; l++) differ[rows][l] |= row[l] ^ before[rows][l];
      }
    if (t == 0) memcpy(scalars, trial.s, sizeof scalars);
    else for (int s = 0; s < SCALAR_REGISTERS; s++) scalars_differ[s] |= trial.s[s] ^ scalars[s];
  }
  unsigned rows = 0;
  for (unsigned n = 0; n < i->operand_count; n++)
    for (unsigned part = 0; i->writes >> n & 1 && part < words_of(&i->operand[n]); part++) {
      unsigned index = i->operand[n].index + part;
      if (i->operand[n].kind == SCALAR && index < SCALAR_REGISTERS) put_scalar_shadow(c, index, scalars_differ[index], origin);
      if (i->operand[n].kind != VECTOR || rows == MOST_ROWS) continue;
      c->has_row[index / 64] |= 1ull << index % 64;
      memcpy(c->shadow.v[index], differ[rows++], sizeof(Lanes));
      note_row(c, index, origin);
    }
  if (flags & WRITES_SCC) put_scalar_shadow(c, SCC, scalars_differ[SCC], origin);
  for (unsigned n = 0; flags & WRITES_VCC && n < 2; n++) put_scalar_shadow(c, VCC + n, scalars_differ[VCC + n], origin);
  put_exec_shadow(w, i, origin, (uint64_t)scalars_differ[EXEC + 1] << 32 | scalars_differ[EXEC]);
}

/* Moves: the shadows move as the values do. */
static bool moves_bits(const Instruction *i) {
  if ((i->row->flags & (MOVES | COPIES_SCALAR | IGNORES_EXEC)) != MOVES) return false;
  for (unsigned n = 0; n < i->operand_count; n++)
    if (i->operand[n].kind != VECTOR && (i->operand[n].kind != SCALAR || i->operand[n].index >= EXEC)) return false;
  return true;
}

static void move_shadows(Wave *w, const Instruction *i, const Instruction *origin) {
  WaveChecks *c = w->checks;
  for (unsigned n = 0; n < i->operand_count; n++)
    for (unsigned k = 0; i->operand[n].kind == VECTOR && k < words_of(&i->operand[n]); k++)
      prepare_row(c, i->operand[n].index + k);
  c->shadow.s[EXEC] = w->s[EXEC];
  c->shadow.s[EXEC + 1] = w->s[EXEC + 1];
  i->execute(&c->shadow, i);
  for (unsigned n = 0; n < i->operand_count; n++)
    for (unsigned k = 0; i->writes >> n & 1 && i->operand[n].kind == VECTOR && k < words_of(&i->operand[n]); k++)
      note_row(c, i->operand[n].index + k, origin);
}

/* v_cndmask_b32 by a mask without doubt: what is chosen brings its undefined bits. */
static bool selects(const Wave *w, const Instruction *i) {
  const Operand *mask = &i->operand[3];
  return i->direct && i->operand_count == 4 && mask->kind == SCALAR && begins(i->row->name, "v_cndmask_b32") &&
         !(scalar_pair_shadow(w->checks, mask->index) & EXEC_OF(w));
}

static void select_shadows(Wave *w, const Instruction *i, const Instruction *origin) {
  WaveChecks *c = w->checks;
  const uint64_t mask = scalar_operand_pair(w, &i->operand[3]), exec = EXEC_OF(w);
  uint32_t *result = prepare_row(c, i->operand[0].index);
  const uint32_t *rows[2] = {NULL, NULL};
  uint32_t scalars[2] = {0, 0};
  for (unsigned n = 0; n < 2; n++) {
    const Operand *o = &i->operand[1 + n];
    if (o->kind == VECTOR) rows[n] = prepare_row(c, o->index);
    else if (o->kind == SCALAR) scalars[n] = scalar_shadow(c, o->index);
  }
  for (unsigned l = 0; l < LANES; l++) {
    unsigned n = mask >> l & 1;
    if (exec >> l & 1) result[l] = rows[n] ? rows[n][l] : scalars[n];
  }
  note_row(c, i->operand[0].index, origin);
}

/* D = A·B + C. Lane l has a row of A and a column of B, both of number l modulo rows; what it gets of D is in its
 * column. Register n of a lane is in row n / 4 · 8 + l / 32 · 4 + n % 4 (32 rows) or l / 16 · 4 + n (16 rows; of WMMA
 * 2 · n + l / 16, of gfx12's l / 16 · 8 + n, or two of 16 bits). */
static void matrix_lanes(WaveChecks *c, const Instruction *i, const Instruction *origin) {
  const Operand *d = &i->operand[0], *a = &i->operand[1], *b = &i->operand[2];
  unsigned rows = traits_of(i->row).block;
  uint64_t of_a = 0, of_b = 0;
  bool others = false;
  for (unsigned k = 0; a->kind == VECTOR && k < words_of(a); k++) of_a |= c->undefined_lanes[a->index + k];
  for (unsigned k = 0; b->kind == VECTOR && k < words_of(b); k++) of_b |= c->undefined_lanes[b->index + k];
  const Operand *third = i->operand_count > 3 ? &i->operand[3] : NULL;
  bool accumulates = third && (third->kind != VECTOR || words_of(third) == words_of(d));
  for (unsigned n = accumulates ? 4 : 3; n < i->operand_count; n++) { /* scales, indices */
    const Operand *o = &i->operand[n];
    if (o->kind == VECTOR) for (unsigned k = 0; k < words_of(o); k++) others |= c->undefined_lanes[o->index + k] != 0;
    if (o->kind == SCALAR) others |= scalar_shadow(c, o->index) != 0;
  }
  bool known = (rows == 32 && words_of(d) == 16) || (rows == 16 && (words_of(d) == 4 || begins(i->row->name, "v_wmma_")));
  if ((i->blgp || i->cbsz || i->abid) && !strstr(i->row->name, "f8f6f4")) known = false;
  uint64_t rows_of_a = 0, columns_of_b = 0;
  for (unsigned l = 0; known && l < LANES; l++) {
    if (of_a >> l & 1) rows_of_a |= 1ull << l % rows;
    if (of_b >> l & 1) columns_of_b |= 1ull << l % rows;
  }
  bool everything = others || (!known && (of_a | of_b));
  uint64_t columns = columns_of_b;
  if (known) for (unsigned l = rows; l < LANES; l += rows) columns |= columns_of_b << l;
  const Operand *before = accumulates ? third : i->row->flags & READS_RESULT ? d : NULL;
  for (unsigned n = 0; n < words_of(d); n++) {
    uint64_t lanes = everything ? ~0ull : columns;
    if (before && before->kind == VECTOR) lanes |= c->undefined_lanes[before->index + n];
    for (unsigned l = 0; known && rows_of_a && l < LANES; l++) {
      bool gfx12 = is_gfx12(c->shadow.launch->arch), pair = gfx12 && words_of(d) == 4;
      unsigned row = rows == 32          ? n / 4 * 8 + l / 32 * 4 + n % 4
                     : gfx12             ? l / 16 % 2 * 8 + (pair ? 2 * n : n)
                     : words_of(d) == 8  ? 2 * n + l / 16
                                         : l / 16 * 4 + n;
      if (rows_of_a >> row & (pair ? 3 : 1)) lanes |= 1ull << l;
    }
    unsigned index = d->index + n;
    uint64_t bit = 1ull << index % 64;
    c->undefined_lanes[index] = lanes;
    c->has_row[index / 64] &= ~bit;
    c->undefined[index / 64] = lanes ? c->undefined[index / 64] | bit : c->undefined[index / 64] & ~bit;
    if (lanes) c->origin[index] = origin;
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
  unsigned flags = i->row->flags;
  const Instruction *origin = NULL;
  for (unsigned n = 0; n < i->operand_count && !origin; n++)
    if (reads >> n & 1) origin = origin_of(c, &i->operand[n]);
  if (!origin && flags & READS_VCC) origin = origin_of(c, &(Operand){.kind = SCALAR, .count = 2, .index = VCC});
  if (!origin && flags & READS_SCC && c->shadow.s[SCC]) origin = c->scalar_origin[SCC];
  if (flags & IS_MATRIX) matrix_lanes(c, i, origin);
  else if (moves_bits(i)) move_shadows(w, i, origin);
  else if (selects(w, i)) select_shadows(w, i, origin);
  else if (i->row != &unknown_row && (i->writes || flags & (WRITES_SCC | WRITES_VCC))) try_instruction(w, i, origin);
}

/* ---- Halves of registers ----------------------------------------------------------------------------------------- */
/* A few values of each kind; where the halves are compared, or saturate, some have to be small. */
static uint32_t tried_value(unsigned index, unsigned lane) {
  uint32_t value = (index * LANES + lane + 1) * 0x9e3779b1u;
  value = (value ^ value >> 15) * 0x85ebca77u;
  value ^= value >> 13;
  switch (lane % 4) {
    case 0: return value;
    case 1: return (value & 0x03ff03ff) | 0x38003800; /* two f16 */
    case 2: return (value & 0x7fffff) | 0x3f000000;   /* f32 */
    default: return value & 0x7fff;
  }
}

/* Whether an instruction reads or writes this half: see try_instruction. */
static bool uses_half(Wave *w, const Instruction *i, unsigned index, unsigned half) {
  WaveChecks *c = w->checks;
  uint32_t mask = 0xffffu << 16 * half, used = 0;
  memset(c->undefined, 0, sizeof c->undefined);
  memset(c->undefined_lanes, 0, sizeof c->undefined_lanes);
  memset(c->has_row, 0, sizeof c->has_row);
  memset(c->scalar_undefined, 0, sizeof c->scalar_undefined);
  memset(c->shadow.s, 0, sizeof c->shadow.s);
  for (unsigned s = 0; s < SCALAR_REGISTERS; s++) w->s[s] = tried_value(s, 0);
  EXEC_OF(w) = UINT32_MAX;
  w->s[SCC] = 1;
  for (unsigned n = 0; n < i->operand_count; n++)
    for (unsigned k = 0; i->operand[n].kind == VECTOR && k < words_of(&i->operand[n]); k++)
      for (unsigned l = 0; l < LANES; l++) w->v[i->operand[n].index + k][l] = tried_value(i->operand[n].index + k, l);
  for (unsigned l = 0; l < LANES; l++) c->shadow.v[index][l] = mask;
  note_row(c, index, NULL);
  try_instruction(w, i, NULL);
  for (unsigned s = 0; s < SCALAR_WORDS; s++) used |= c->scalar_undefined[s] != 0;
  i->execute(w, i);
  for (unsigned n = 0; n < i->operand_count; n++)
    for (unsigned k = 0; i->writes >> n & 1 && i->operand[n].kind == VECTOR && k < words_of(&i->operand[n]); k++) {
      unsigned r = i->operand[n].index + k;
      const uint32_t *row = prepare_row(c, r);
      for (unsigned l = 0; l < LANES / 2; l++)
        used |= r == index ? ((w->v[r][l] ^ tried_value(r, l)) & mask) | (row[l] & ~mask) : row[l];
    }
  return used != 0;
}

/* An operand of 16 bits may use one half. Of one of 32 bits a half may count for rounding alone, which is seen by
 * chance. */
static bool may_use_one_half(const Instruction *i, unsigned n) {
  const Row *row = i->row;
  if (row->flags & (IS_MEMORY | IS_MATRIX) || row == &unknown_row || !begins(i->text, "v_")) return false;
  if (n >= row->results && strstr(last_type(row->name), "32") && !strstr(row->name, "_mix_")) return false;
  return strstr(row->name, "16") || i->op_sel || i->has_op_sel_hi;
}

/* Of registers of which loads write a half: the halves that instructions use. */
void choose_halves(Code *code, Arch arch) {
  uint64_t loaded[VECTOR_WORDS] = {0}, any = 0;
  for (const Instruction *i = code->instructions; i < code->instructions + code->count; i++) {
    if (!loads_half(arch, i)) continue;
    loaded[i->operand[0].index / 64] |= 1ull << i->operand[0].index % 64, any = 1;
  }
  if (!any) return;
  Launch launch = {.code = code, .arch = arch, .lanes = lanes_of_wave(arch)};
  Wave *w = aligned_alloc(64, sizeof *w);
  if (!w) abort();
  memset(w, 0, sizeof *w);
  w->launch = &launch;
  w->code = code;
  w->mode = 0xf0; /* denormals of all types */
  w->checks = new_wave_checks();
  for (Instruction *i = code->instructions; i < code->instructions + code->count; i++)
    for (unsigned n = 0; n < i->operand_count; n++) {
      Operand *o = &i->operand[n];
      if (!may_use_one_half(i, n) || o->kind != VECTOR || words_of(o) > 1 || o->half || !any_of(loaded, o->index, 1)) continue;
      bool lower = uses_half(w, i, o->index, 0), upper = uses_half(w, i, o->index, 1);
      if (lower != upper) o->spared = lower ? UPPER_HALF : LOWER_HALF;
    }
  free_wave_checks(w->checks);
  free(w);
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

static bool is_number_16(uint32_t half) { return (half & 0x7fff) <= 0x7c00; }
static bool is_number_brain(uint32_t half) { return (half & 0x7fff) <= 0x7f80; }
static bool is_number_32(uint32_t word) { return (word & 0x7fffffff) <= 0x7f800000; }

static bool is_number(SourceType type, uint32_t word) {
  switch (type) {
    case FLOAT_32: return is_number_32(word);
    case FLOAT_16: return is_number_16(word) && is_number_16(word >> 16);
    case BRAIN_16: return is_number_brain(word) && is_number_brain(word >> 16);
    case MIXED: return is_number_32(word) && is_number_16(word) && is_number_16(word >> 16) && is_number_brain(word >> 16);
    case FLOAT_8: return finite_8(word);
    default: return true;
  }
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

/* Leaves the lanes in which the operand is finite, or no NaN. Of f64 only the upper words tell. */
static void trace_source(Wave *w, const Instruction *i, const Operand *o, SourceType type, bool raw) {
  uint64_t infinite = 0, none = 0;
  unsigned words = words_of(o);
  if (o->kind == LITERAL) {
    if (!(o->is_float ? isfinite(o->real) : is_finite(type, (uint32_t)o->bits))) w->checks->finite = 0;
    if (!(o->is_float ? !isnan(o->real) : is_number(type, (uint32_t)o->bits))) w->checks->numbers = 0;
    return;
  }
  for (unsigned part = 0; part < words; part++) {
    Lanes buffer;
    if (type == FLOAT_64 && part % 2 == 0) continue;
    const uint32_t *row = raw && o->kind == VECTOR ? w->v[o->index + part] : fetch(w, i, o, part, buffer);
    for (int l = 0; l < LANES; l++) {
      bool finite = type == FLOAT_64 ? (row[l] & 0x7ff00000) != 0x7ff00000 : is_finite(type, row[l]);
      bool number = type == FLOAT_64 ? (row[l] & 0x7fffffff) <= 0x7ff00000 : is_number(type, row[l]);
      infinite |= (uint64_t)!finite << l;
      none |= (uint64_t)!number << l;
    }
  }
  w->checks->finite &= ~infinite;
  w->checks->numbers &= ~none;
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
  Traits traits = traits_of(i->row);
  bool matrix = i->row->flags & IS_MATRIX;
  w->checks->finite = w->checks->numbers = ~0ull;
  for (unsigned n = 0; n < i->operand_count; n++) {
    if (!(reads >> n & 1) && i->operand[n].kind != LITERAL) continue;
    if (i->operand[n].kind == NO_OPERAND) continue;
    bool result = i->writes >> n & 1, accumulator = matrix && (result || n == 3);
    SourceType type = result || accumulator ? type_of_result(i->row->result_type) : (SourceType)traits.source_type;
    if (traits.with_mask && i->operand[n].kind == SCALAR && words_of(&i->operand[n]) == 2) continue;
    trace_source(w, i, &i->operand[n], type, matrix);
  }
  uint64_t all = w->launch->lanes == LANES ? ~0ull : UINT32_MAX;
  if (matrix && (w->checks->finite & all) != all) w->checks->finite = 0;
  if (matrix && (w->checks->numbers & all) != all) w->checks->numbers = 0;
}

static NO_INLINE void trace_results(Wave *w, const Instruction *i) {
  const Operand *o = &i->operand[0];
  if (o->kind != VECTOR) return;
  uint8_t type = i->row->result_type;
  uint64_t lanes = (i->row->flags & (IS_MATRIX | IGNORES_EXEC) ? w->live : EXEC_OF(w)) & w->checks->numbers;
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
      bool of_finite = w->checks->finite >> lane & 1;
      if (finite || (infinite && !of_finite)) continue;
      Finding f = {.kind = NON_FINITE, .at = i, .lane = (int)lane, .other_wave = -1, .other_lane = -1};
      char name[16];
      name_vector(name, sizeof name, o->index + k);
      snprintf(f.note, sizeof f.note, "%s is %s, its sources are %s", name, infinite ? "infinite" : "NaN",
               of_finite ? "finite" : "infinite");
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

/* At the registers that `of` uses: the instruction, or one of its parts. */
static void look_at_operands(Instruction *i, const Instruction *of) {
  unsigned flags = of->row->flags;
  if (flags & IS_MEMORY) return;
  for (unsigned n = 0; n < of->operand_count; n++) {
    const Operand *o = &of->operand[n];
    if (o->kind == VECTOR && !(i->parts && o->index == SPARE_OF_PAIRS)) look_at(i, o->index, words_of(o));
    if (o->kind != SCALAR || o->index + words_of(o) > SCALAR_REGISTERS) continue;
    look_at(i, VECTOR_REGISTERS + o->index, words_of(o));
    if (o->index == VCCZ) look_at(i, VECTOR_REGISTERS + VCC, 2);
  }
  if (flags & (READS_VCC | WRITES_VCC)) look_at(i, VECTOR_REGISTERS + VCC, 2);
  if (flags & (READS_SCC | WRITES_SCC)) look_at(i, VECTOR_REGISTERS + SCC, 1);
}

void choose_looked_at(Instruction *i) {
  look_at_operands(i, i);
  for (unsigned n = 0; n < i->part_count; n++) look_at_operands(i, &i->parts[n]);
}

static bool begins_with_any(const char *text, const char *const *beginnings) {
  for (; *beginnings; beginnings++)
    if (begins(text, *beginnings)) return true;
  return false;
}

/* Memory instructions see to what they use, and leave nothing in doubt but what they load. */
static bool is_access(const Instruction *i) {
  static const char *const accesses[] = {"global_", "flat_", "buffer_", "scratch_", "ds_", "s_load_", "s_buffer_load_", NULL};
  return i->row->flags & IS_MEMORY && begins_with_any(i->text, accesses);
}

/* False for what changes the state of the wave or where it goes on, or leaves in doubt what its operands do not say. */
static bool stays_in_run(const Instruction *i) {
  static const char *const others[] = {"s_set_gpr", "s_cbranch", "s_call", "s_barrier", "s_sendmsg", NULL};
  if (is_access(i) || i->parts) return true;
  if (i->row->flags & (IS_MEMORY | IS_BRANCH | ENDS_BLOCK)) return false;
  return begins(i->text, "v_") || (begins(i->text, "s_") && !begins_with_any(i->text, others));
}

/* What a memory instruction may leave in doubt. */
static void find_loaded(const Instruction *i, uint64_t registers[REGISTER_WORDS]) {
  bool is_load = strstr(i->row->name, "load") || strstr(i->row->name, "read");
  bool is_store = !i->row->results && (strstr(i->row->name, "store") || strstr(i->row->name, "write"));
  memset(registers, 0, REGISTER_WORDS * sizeof *registers);
  for (unsigned n = 0; is_access(i) && !is_store && n < i->operand_count; n++) {
    const Operand *o = &i->operand[n];
    if ((o->kind != VECTOR && o->kind != SCALAR) || (is_load && !(i->writes >> n & 1))) continue;
    unsigned first = o->index + (o->kind == SCALAR ? VECTOR_REGISTERS : 0);
    for (unsigned r = first; r < first + words_of(o) && r / 64 < REGISTER_WORDS; r++) registers[r / 64] |= 1ull << r % 64;
  }
}

static bool any_in_both(const uint64_t *one, const uint64_t *other) {
  uint64_t both = 0;
  for (unsigned n = 0; n < REGISTER_WORDS; n++) both |= one[n] & other[n];
  return both != 0;
}

void find_runs(Code *code) {
  code->runs = calloc(code->count + 1, sizeof *code->runs);
  if (!code->runs) abort();
  for (uint32_t n = code->count; n-- > 0;) {
    const Instruction *i = &code->instructions[n];
    Run *run = &code->runs[n];
    uint64_t loaded[REGISTER_WORDS];
    bool ends = i->row->flags & (IS_BRANCH | ENDS_BLOCK) && !(i->row->flags & IS_MEMORY);
    if (!ends && !stays_in_run(i)) continue;
    find_loaded(i, loaded);
    bool waits = begins(i->text, "s_wait"); /* less is in doubt behind it */
    if (!ends && !waits && !any_in_both(loaded, run[1].registers)) *run = run[1];
    run->branches |= ends;
    run->length++;
    run->cost += i->cost;
    for (unsigned l = 0; l < LOOKED_AT; l++) run->registers[i->word[l]] |= i->looked_at[l];
  }
  for (Run *run = code->runs; run < code->runs + code->count; run++)
    for (unsigned n = 0; n < REGISTER_WORDS; n++) {
      if (!run->registers[n]) continue;
      run->word[run->words] = (uint8_t)n;
      run->registers[run->words++] = run->registers[n];
    }
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
        check_flight(w, i, index, count, halves_of(o), is_read ? read : written, is_read ? "read" : "overwritten");
      if (!any_of(c->undefined, index, count)) continue;
      if (is_read)
        for (unsigned r = index; r < index + count; r++) doubtful |= (c->undefined_lanes[r] & read) != 0;
      /* results that are written in part */
      else doubtful |= i->dpp || i->sdwa || i->half_result || i->op_sel || i->row->detail == KEEPS_UPPER_HALF;
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
  if (w->launch->traced && i->row->result_type != PLAIN_BITS && w->checks->numbers) trace_results(w, i);
}
