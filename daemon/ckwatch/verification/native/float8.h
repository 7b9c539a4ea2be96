/* Floats of 8, 6 and 4 bits, and E8M0 scales: to and from f32.
 *
 *   format      sign-exponent-mantissa  bias  infinities, NaN                 largest
 *   E4M3        1-4-3                   7     no infinity, NaN 0x7f, 0xff     448
 *   E5M2        1-5-2                   15    as IEEE                         57344
 *   E2M3        1-2-3                   1     neither                         7.5
 *   E3M2        1-3-2                   3     neither                         28
 *   E2M1        1-2-1                   1     neither                         6
 *   E4M3_FNUZ   1-4-3                   8     no infinity, NaN 0x80, no -0    240
 *   E5M2_FNUZ   1-5-2                   16    no infinity, NaN 0x80, no -0    57344
 *
 * "fp8" and "bf8" in mnemonics are the FNUZ ones on gfx942 and the OCP ones on gfx950 and gfx12. Sources: the tables of small
 * floats and of FP16_OVFL in the CDNA4 ISA document, and LLVM's APFloat for FNUZ. */
#ifndef FLOAT8_H
#define FLOAT8_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "machine.h"

/* The first five are the numbers that cbsz and blgp of the f8f6f4 instructions have for them. */
typedef enum { E4M3, E5M2, E2M3, E3M2, E2M1, E4M3_FNUZ, E5M2_FNUZ, SMALL_FORMATS } SmallFormat;

typedef struct {
  uint8_t width, mantissa; /* bits */
  int8_t bias;
  uint8_t largest; /* the largest finite magnitude, as bits */
} SmallFormatParts;

static inline SmallFormatParts parts_of_small(SmallFormat f) {
  switch (f) {
    case E4M3: return (SmallFormatParts){8, 3, 7, 0x7e};
    case E5M2: return (SmallFormatParts){8, 2, 15, 0x7b};
    case E2M3: return (SmallFormatParts){6, 3, 1, 0x1f};
    case E3M2: return (SmallFormatParts){6, 2, 3, 0x1f};
    case E2M1: return (SmallFormatParts){4, 1, 1, 0x07};
    case E4M3_FNUZ: return (SmallFormatParts){8, 3, 8, 0x7f};
    default: return (SmallFormatParts){8, 2, 16, 0x7f};
  }
}

/* What "fp8" and "bf8" mean on a target. */
static inline SmallFormat fp8_of(Arch arch) { return arch == GFX950 || is_gfx12(arch) ? E4M3 : E4M3_FNUZ; }
static inline SmallFormat bf8_of(Arch arch) { return arch == GFX950 || is_gfx12(arch) ? E5M2 : E5M2_FNUZ; }

/* ---- To f32, exactly -------------------------------------------------------------------------------------------- */

/* The value of the low bits of `bits`; what is above the format's width is ignored. Without branches: loops over lanes
 * with a constant format become vector instructions. */
static inline float f32_of_small(SmallFormat f, uint32_t bits) {
  const SmallFormatParts p = parts_of_small(f);
  uint32_t sign = bits >> (p.width - 1) & 1, magnitude = bits & ((1u << (p.width - 1)) - 1), one;
  uint32_t exponent_of_ulp = (uint32_t)(127 + 1 - p.bias - p.mantissa) << 23;
  float ulp, value, subnormal;
  memcpy(&ulp, &exponent_of_ulp, 4);
  subnormal = (float)(int32_t)magnitude * ulp;
  one = (magnitude << (23 - p.mantissa)) + ((uint32_t)(127 - p.bias) << 23);
  uint32_t subnormal_bits;
  memcpy(&subnormal_bits, &subnormal, 4);
  one = magnitude < 1u << p.mantissa ? subnormal_bits : one;
  if (f == E4M3) one = magnitude == 0x7f ? 0x7fc00000u : one;
  if (f == E5M2) one = magnitude < 0x7c ? one : magnitude == 0x7c ? 0x7f800000u : 0x7fc00000u;
  if (f == E4M3_FNUZ || f == E5M2_FNUZ) one = (bits & 0xff) == 0x80 ? 0x7fc00000u : one;
  one |= sign << 31;
  memcpy(&value, &one, 4);
  return value;
}

/* A scale: 2 ^ (bits - 127); 0xff is NaN. */
static inline float f32_of_e8m0(uint32_t bits) {
  uint32_t exponent = bits & 0xff, u = exponent == 0xff ? 0x7fc00000u : exponent ? exponent << 23 : 0x00400000u;
  float value;
  memcpy(&value, &u, 4);
  return value;
}

/* ---- From f32 --------------------------------------------------------------------------------------------------- */

/* NaN, and what is beyond the largest value. */
static inline uint32_t small_nan(SmallFormat f, uint32_t sign) {
  const SmallFormatParts p = parts_of_small(f);
  if (f == E4M3_FNUZ || f == E5M2_FNUZ) return 0x80;
  if (f == E4M3 || f == E5M2) return sign << 7 | 0x7f;
  return sign << (p.width - 1) | p.largest; /* formats without NaN */
}
static inline uint32_t small_overflow(SmallFormat f, uint32_t sign, bool saturate) {
  const SmallFormatParts p = parts_of_small(f);
  if (saturate || f == E2M3 || f == E3M2 || f == E2M1) return sign << (p.width - 1) | p.largest;
  return f == E5M2 ? sign << 7 | 0x7c : small_nan(f, sign);
}

/* Both kinds of rounding: `added` goes to the 24-bit significand before it is cut off; unless `stochastic`, to nearest
 * even. */
static inline uint32_t small_rounded(SmallFormat f, float x, bool stochastic, uint32_t added, bool saturate) {
  const SmallFormatParts p = parts_of_small(f);
  uint32_t u;
  memcpy(&u, &x, 4);
  uint32_t sign = u >> 31, exponent = u >> 23 & 0xff, significand = u & 0x7fffff;
  if (exponent == 0xff) return significand ? small_nan(f, sign) : small_overflow(f, sign, saturate);
  if (exponent) significand |= 0x800000;
  else exponent = 1;
  significand += added;
  if (significand >> 24) { /* the carry of what was added; the bit that falls out is below all that are kept */
    significand >>= 1;
    exponent++;
  }
  int above = (int)exponent - 127 - (1 - p.bias); /* over the exponent of the smallest normal value */
  int shift = 23 - p.mantissa + (above < 0 ? -above : 0);
  if (shift > 31) shift = 31;
  uint32_t kept = significand >> shift, rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
  if (!stochastic && (rest > half || (rest == half && (kept & 1)))) kept++;
  uint32_t magnitude = (above > 0 ? (uint32_t)above << p.mantissa : 0) + kept;
  if (magnitude > p.largest) return small_overflow(f, sign, saturate);
  if (!magnitude && (f == E4M3_FNUZ || f == E5M2_FNUZ)) return 0;
  return sign << (p.width - 1) | magnitude;
}

/* To nearest even, as v_cvt_pk_fp8_f32 does. `saturate` is MODE.FP16_OVFL (bit 23): what is too large, infinities too,
 * becomes the largest value; without it NaN, or infinity in E5M2. E2M3, E3M2 and E2M1 always saturate, and NaN becomes
 * their largest value. Scale `x` before, and by a power of two: the result is rounded once. */
static inline uint32_t small_of_f32(SmallFormat f, float x, bool saturate) {
  return small_rounded(f, x, false, 0, saturate);
}

/* Stochastic, as v_cvt_sr_fp8_f32 does: the upper bits of `random` (all 32 bits of the register), as many as the
 * mantissa loses (20 for E4M3, 21 for E5M2), are added below the mantissa, and the sum is cut off. */
static inline uint32_t small_of_f32_stochastic(SmallFormat f, float x, uint32_t random, bool saturate) {
  return small_rounded(f, x, true, random >> (9 + parts_of_small(f).mantissa), saturate);
}

#endif
