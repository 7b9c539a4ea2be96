/* Random programs as kernels. Without HIP's headers, which take longer than 50 kernels. */
#define EVERYWHERE __attribute__((device, always_inline)) static inline
#define NOINLINE __attribute__((device, noinline)) static
#define INLINE __attribute__((device)) static inline
#define KERNEL(name)                                                                            \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS, THREADS))) void name( \
      const u8 *__restrict__ in, u8 *__restrict__ out, u32 *counters)
#define SHARED(type, name, count) __attribute__((shared)) static type name[count]
#include "common.h"

#if defined(__GFX9__) || defined(WAVES_OF_64)
#define WAVE 64u
#define BALLOT __builtin_amdgcn_ballot_w64
#else
#define WAVE 32u
#define BALLOT __builtin_amdgcn_ballot_w32
#endif

EVERYWHERE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
EVERYWHERE u32 group() { return __builtin_amdgcn_workgroup_id_x(); }
EVERYWHERE u32 lane() { return thread() % WAVE; }
EVERYWHERE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
EVERYWHERE f16x2 fused(f16x2 a, f16x2 b, f16x2 c) { return __builtin_elementwise_fma(a, b, c); }
EVERYWHERE f16 fused(f16 a, f16 b, f16 c) { return __builtin_elementwise_fma(a, b, c); }
EVERYWHERE u32 shuffle(u32 value, u32 lane) {
#if defined(__GFX11__) && defined(WAVES_OF_64) /* whose ds_bpermute reaches one half of a wave */
  u32 found = 0;
  for (u32 n = 0; n < WAVE; n++) {
    const u32 there = __builtin_amdgcn_readlane(value, n);
    if (n == lane % WAVE) found = there;
  }
  return BALLOT(true) >> lane % WAVE & 1 ? found : 0;
#else
  return (u32)__builtin_amdgcn_ds_bpermute((int)((lane % WAVE) * 4), (int)value);
#endif
}
EVERYWHERE u32 of_lane(u32 value, u32 lane) { return __builtin_amdgcn_readlane(value, lane % WAVE); }
EVERYWHERE u32 of_first(u32 value) { return __builtin_amdgcn_readfirstlane(value); }
EVERYWHERE u64 ballot(bool value) { return BALLOT(value); }
EVERYWHERE u64 ballot_where(bool condition, bool value) {
  u64 found = 0;
  if (condition) found = BALLOT(value);
  return found;
}
EVERYWHERE u32 first_where(bool condition, u32 value) {
  u32 found = 0;
  if (condition) found = __builtin_amdgcn_readfirstlane(value);
  return found;
}
/* For gfx1201, LLVM 22 writes v_cvt_f64_u32 and v_mad_co_u64_u32 of it with DPP, which they do not have. */
template <int control> EVERYWHERE u32 in_row(u32 value) {
  u32 moved = (u32)__builtin_amdgcn_update_dpp(0, (int)value, control, 15, 15, true);
#if defined(__GFX12__) && !defined(SHOW_ROWS)
  asm("" : "+v"(moved));
#endif
  return moved;
}
template <int mask> EVERYWHERE u32 exchanged(u32 value) {
  return (u32)__builtin_amdgcn_ds_swizzle((int)value, mask << 10 | 31);
}
#define ATOMIC(name, operation)                                                              \
  template <class T> EVERYWHERE void atomic_##name(T *at, T value) {                         \
    __hip_atomic_fetch_##operation(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
  }
ATOMIC(add, add)
ATOMIC(xor, xor)
ATOMIC(or, or)
ATOMIC(and, and)
ATOMIC(min, min)
ATOMIC(max, max)
