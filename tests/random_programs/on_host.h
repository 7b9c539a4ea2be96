/* Random programs as functions of the host: each thread of a workgroup is a context of its own, and all go on together
 * from one barrier to the next. A shuffle is a barrier, a look at what the other lane has put down, and a barrier. */
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define EVERYWHERE [[maybe_unused]] static inline
#define NOINLINE [[maybe_unused]] __attribute__((noinline)) static
#define INLINE [[maybe_unused]] static inline
#define KERNEL(name)                                                                           \
  static void name##_thread(const u8 *in, u8 *out, u32 *counters);                             \
  extern "C" void name(const u8 *in, u8 *out, u32 *counters, u32 groups, u32 lanes_of_wave) { \
    run(name##_thread, in, out, counters, groups, lanes_of_wave);                              \
  }                                                                                            \
  static void name##_thread(const u8 *in, u8 *out, u32 *counters)
#define SHARED(type, name, count) static type name[count]
#include "common.h"

using Kernel = void (*)(const u8 *, u8 *, u32 *);
enum { STACK = 1 << 18 };
u32 current, current_group, WAVE;
static u64 slots[THREADS];
static bool asked[THREADS], ended[THREADS];
static ucontext_t scheduler, contexts[THREADS];
static char *stacks;
static struct {
  Kernel kernel;
  const u8 *in;
  u8 *out;
  u32 *counters;
} launched;

static void one_thread() {
  launched.kernel(launched.in, launched.out, launched.counters);
  ended[current] = true;
}
__attribute__((noinline)) void barrier() {
  u32 here = current;
  swapcontext(&contexts[here], &scheduler);
}
[[maybe_unused]] static void run(Kernel kernel, const u8 *in, u8 *out, u32 *counters, u32 groups, u32 lanes_of_wave) {
  if (!stacks) stacks = (char *)malloc((size_t)STACK * THREADS);
  launched = {kernel, in, out, counters};
  WAVE = lanes_of_wave;
  for (current_group = 0; current_group < groups; current_group++) {
    for (u32 n = 0; n < THREADS; n++) {
      getcontext(&contexts[n]);
      contexts[n].uc_stack.ss_sp = stacks + (size_t)STACK * n;
      contexts[n].uc_stack.ss_size = STACK;
      contexts[n].uc_link = &scheduler;
      ended[n] = false;
      makecontext(&contexts[n], one_thread, 0);
    }
    for (bool all = false; !all;) {
      all = true;
      for (u32 n = 0; n < THREADS; n++) {
        if (ended[n]) continue;
        current = n;
        swapcontext(&scheduler, &contexts[n]);
        all = all && ended[n];
      }
    }
  }
}

EVERYWHERE u32 thread() { return current; }
EVERYWHERE u32 group() { return current_group; }
EVERYWHERE u32 lane() { return current % WAVE; }
EVERYWHERE u32 wave_begin() { return current / WAVE * WAVE; }

static void put_down(u64 value, bool condition = true) {
  slots[current] = value;
  asked[current] = condition;
  barrier();
}
static u64 taken(u32 from) {
  u64 value = slots[from];
  barrier();
  return value;
}
EVERYWHERE u32 shuffle(u32 value, u32 lane) {
  put_down(value);
  return (u32)taken(wave_begin() + lane % WAVE);
}
EVERYWHERE u32 of_lane(u32 value, u32 lane) { return shuffle(value, lane); }
EVERYWHERE u32 of_first(u32 value) { return shuffle(value, 0); }
static u64 ballot_where(bool condition, bool value) {
  put_down(value, condition);
  u64 found = 0;
  for (u32 n = 0; n < WAVE; n++) found |= (u64)(asked[wave_begin() + n] && slots[wave_begin() + n]) << n;
  barrier();
  return condition ? found : 0;
}
EVERYWHERE u64 ballot(bool value) { return ballot_where(true, value); }
[[maybe_unused]] static u32 first_where(bool condition, u32 value) {
  put_down(value, condition);
  u32 first = wave_begin();
  while (condition && !asked[first]) first++;
  u32 found = (u32)taken(first);
  return condition ? found : 0;
}
/* DPP controls: quad_perm below 0x100, row_shr, row_ror, row_mirror, row_half_mirror. */
template <int control> static u32 in_row(u32 value) {
  put_down(value);
  u32 row = current & ~15u, at = current & 15, from = at;
  bool is_there = true;
  if (control < 0x100) from = (at & ~3u) | (control >> (2 * (at & 3)) & 3);
  else if (control < 0x120) is_there = at >= (control & 15), from = (at - (control & 15)) & 15;
  else if (control < 0x130) from = (at - (control & 15)) & 15;
  else from = control == 0x140 ? 15 - at : (at & 8) | (7 - (at & 7));
  u32 found = (u32)taken(row + from);
  return is_there ? found : 0;
}
template <int mask> EVERYWHERE u32 exchanged(u32 value) {
  put_down(value);
  return (u32)taken(current ^ mask);
}

template <class T> EVERYWHERE void atomic_add(T *at, T value) { *at += value; }
template <class T> EVERYWHERE void atomic_xor(T *at, T value) { *at ^= value; }
template <class T> EVERYWHERE void atomic_or(T *at, T value) { *at |= value; }
template <class T> EVERYWHERE void atomic_and(T *at, T value) { *at &= value; }
template <class T> EVERYWHERE void atomic_min(T *at, T value) { *at = value < *at ? value : *at; }
template <class T> EVERYWHERE void atomic_max(T *at, T value) { *at = value > *at ? value : *at; }

/* Rounded once: the exact sum of an exact product, rounded to odd in f64, which has more than twice the bits. */
[[maybe_unused]] static f16 fused(f16 a, f16 b, f16 c) {
  f64 product = (f64)a * (f64)b, addend = (f64)c, sum = product + addend;
  if (sum - sum != 0) return (f16)sum;
  f64 part = sum - product, error = (product - (sum - part)) + (addend - part);
  u64 bits = same_bits<u64>(sum);
  if (error != 0 && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
  return (f16)same_bits<f64>(bits);
}
EVERYWHERE f16x2 fused(f16x2 a, f16x2 b, f16x2 c) {
  return f16x2{fused((f16)a.x, (f16)b.x, (f16)c.x), fused((f16)a.y, (f16)b.y, (f16)c.y)};
}

/* What compilers call and older runtime libraries do not have. */
static u16 upper_half(u32 bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return (u16)(bits >> 16 | 0x40);
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
extern "C" bf16 __truncsfbf2(f32 value) { return same_bits<bf16>(upper_half(same_bits<u32>(value))); }
extern "C" bf16 __truncdfbf2(f64 value) { /* rounded to odd first */
  f32 nearest = (f32)value;
  u32 bits = same_bits<u32>(nearest);
  if (nearest - nearest == 0 && (f64)nearest != value && !(bits & 1))
    bits += (__builtin_fabs(value) > __builtin_fabs((f64)nearest)) ? 1 : -1;
  else if (__builtin_isinf(nearest) && !__builtin_isinf(value)) bits -= 1;
  return same_bits<bf16>(upper_half(bits));
}
