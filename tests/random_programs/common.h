/* What random programs are written in, for the device and for the host alike. A NaN has one bit pattern wherever it is
 * looked at, since neither side promises its sign or payload. */
using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;
using f16 = _Float16;
using bf16 = __bf16;
using f32 = float;
using f64 = double;
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef u16 u16x2 __attribute__((ext_vector_type(2)));
typedef u16 u16x4 __attribute__((ext_vector_type(4)));
typedef i16 i16x2 __attribute__((ext_vector_type(2)));
typedef u8 u8x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f32 f32x2 __attribute__((ext_vector_type(2)));

struct Record {
  i8 a;
  u32 b;
  u16 c;
  u64 d;
  f32 e;
  f16 f;
};

template <class To, class From> EVERYWHERE To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
template <class T> EVERYWHERE T canonical(T value) { return value; }
EVERYWHERE f32 canonical(f32 value) {
  u32 bits = same_bits<u32>(value);
  return same_bits<f32>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits);
}
EVERYWHERE f64 canonical(f64 value) {
  u64 bits = same_bits<u64>(value);
  return same_bits<f64>((bits & ~0ull >> 1) > 0x7ff0000000000000ull ? 0x7ff8000000000000ull : bits);
}
EVERYWHERE f16 canonical(f16 value) {
  u16 bits = same_bits<u16>(value);
  return same_bits<f16>((u16)((bits & 0x7fff) > 0x7c00 ? 0x7e00 : bits));
}
EVERYWHERE bf16 canonical(bf16 value) {
  u16 bits = same_bits<u16>(value);
  return same_bits<bf16>((u16)((bits & 0x7fff) > 0x7f80 ? 0x7fc0 : bits));
}
EVERYWHERE f16x2 canonical(f16x2 value) { return f16x2{canonical((f16)value.x), canonical((f16)value.y)}; }
EVERYWHERE f32x2 canonical(f32x2 value) { return f32x2{canonical((f32)value.x), canonical((f32)value.y)}; }
EVERYWHERE Record canonical(Record value) {
  value.e = canonical(value.e);
  value.f = canonical(value.f);
  return value;
}

template <class To, class From> EVERYWHERE To bits_of(From from) { return same_bits<To>(canonical(from)); }

template <class T> EVERYWHERE T get(const u8 *at) { /* at a multiple of its size */
  T value;
  __builtin_memcpy(&value, __builtin_assume_aligned(at, sizeof(T)), sizeof(T));
  return value;
}
template <class T> EVERYWHERE T get_unaligned(const u8 *at) {
  T value;
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}
template <class T> EVERYWHERE void put(u8 *at, T value) {
  value = canonical(value);
  __builtin_memcpy(__builtin_assume_aligned(at, sizeof(T)), &value, sizeof(T));
}
EVERYWHERE void put_record(u8 *at, Record value) {
  put(at, value.d);
  put(at + 8, value.b);
  put(at + 12, value.e);
  put(at + 16, value.c);
  put(at + 18, value.f);
  put(at + 20, value.a);
}

template <class I, class F> EVERYWHERE I to_integer(F value) { /* 0 for what it cannot hold */
  constexpr bool is_signed = (I)-1 < (I)0, is_wide = sizeof(I) == 8;
  constexpr f32 high = is_wide      ? (is_signed ? 9.0e18f : 1.8e19f)
                       : sizeof(I) == 4 ? (is_signed ? 2.0e9f : 4.0e9f)
                       : sizeof(I) == 2 ? (is_signed ? 32767.f : 65535.f)
                                        : (is_signed ? 127.f : 255.f);
  constexpr f32 low = !is_signed ? 0.f : sizeof(I) >= 4 ? -high : -high - 1;
  using Wide = decltype(value + 0.f);
  return (Wide)value >= (Wide)low && (Wide)value <= (Wide)high ? (I)value : (I)0;
}
/* LLVM 22 divides at -O0 by as many bits as unsigned numbers have that are taken for signed ones (LowerDIVREM24), so
 * that 65535 ones become 16: there the extension is hidden from it. */
template <class To, class From> EVERYWHERE To widened(From value) {
  To wide = (To)value;
#if defined(__AMDGCN__) && !defined(__OPTIMIZE__) && !defined(SHOW_EXTENSIONS)
  asm("" : "+v"(wide));
#endif
  return wide;
}
/* For gfx11, LLVM 22 swaps the bytes of 64 bits by way of 16-bit copies, which registers of -O0 do not survive. */
EVERYWHERE u64 bytes_swapped(u64 value) {
#if defined(__AMDGCN__) && !defined(__OPTIMIZE__) && !defined(SHOW_SWAPS)
  return (u64)__builtin_bswap32((u32)value) << 32 | __builtin_bswap32((u32)(value >> 32));
#else
  return __builtin_bswap64(value);
#endif
}
EVERYWHERE u32 bytes_swapped(u32 value) { return __builtin_bswap32(value); }
EVERYWHERE u16 bytes_swapped(u16 value) { return __builtin_bswap16(value); }
template <class T> EVERYWHERE T divide(T a, T b) {
  if constexpr ((T)-1 < (T)0) return b == 0 || b == -1 ? a : (T)(a / b);
  else return (T)(a / (b ? b : (T)7));
}
template <class T> EVERYWHERE T remainder_of(T a, T b) {
  if constexpr ((T)-1 < (T)0) return b == 0 || b == -1 ? a : (T)(a % b);
  else return (T)(a % (b ? b : (T)7));
}
template <class T> EVERYWHERE T lesser(T a, T b) { return a < b ? a : b; }
template <class T> EVERYWHERE T greater(T a, T b) { return a > b ? a : b; }
EVERYWHERE u32 leading_zeros(u32 x) { return x ? __builtin_clz(x) : 32; }
EVERYWHERE u32 trailing_zeros(u32 x) { return x ? __builtin_ctz(x) : 32; }
EVERYWHERE u64 leading_zeros(u64 x) { return x ? __builtin_clzll(x) : 64; }
EVERYWHERE u64 trailing_zeros(u64 x) { return x ? __builtin_ctzll(x) : 64; }
EVERYWHERE u32 high_product(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
EVERYWHERE i32 high_product(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }
EVERYWHERE u64 high_product(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
EVERYWHERE i64 high_product(i64 a, i64 b) { return (i64)((__int128)a * b >> 64); }
EVERYWHERE u32 absolute(i32 a) { return a < 0 ? 0u - (u32)a : (u32)a; }
EVERYWHERE u32 field(u32 x, u32 at, u32 width) { return x >> (at & 31) & ((1u << (width & 31)) - 1); }
EVERYWHERE i32 signed_field(u32 x, u32 at, u32 width) { return (i32)(x << (at & 31)) >> (width & 31); }
EVERYWHERE u32 funnel(u32 a, u32 b, u32 at) { return (u32)(((u64)a << 32 | b) >> (at & 31)); }
EVERYWHERE u32 picked(u32 mask, u32 a, u32 b) { return (mask & a) | (~mask & b); }
EVERYWHERE u32 carried(u32 a, u32 b) {
  u32 sum;
  return __builtin_add_overflow(a, b, &sum) ? ~sum : sum;
}
EVERYWHERE f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
EVERYWHERE f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
EVERYWHERE f32x2 fused(f32x2 a, f32x2 b, f32x2 c) { return f32x2{fused(a.x, b.x, c.x), fused(a.y, b.y, c.y)}; }
EVERYWHERE f16x2 fused(f16x2 a, f16x2 b, f16x2 c);
EVERYWHERE f32 root(f32 a) { return __builtin_sqrtf(a); }
EVERYWHERE f64 root(f64 a) { return __builtin_sqrt(a); }
EVERYWHERE f32 rounded(f32 a, int how) {
  return how == 0 ? __builtin_floorf(a) : how == 1 ? __builtin_ceilf(a) : how == 2 ? __builtin_truncf(a) : __builtin_rintf(a);
}
EVERYWHERE f64 rounded(f64 a, int how) {
  return how == 0 ? __builtin_floor(a) : how == 1 ? __builtin_ceil(a) : how == 2 ? __builtin_trunc(a) : __builtin_rint(a);
}
EVERYWHERE f32 scaled(f32 a, i32 by) { return __builtin_ldexpf(a, by % 300); }
EVERYWHERE f64 scaled(f64 a, i32 by) { return __builtin_ldexp(a, by % 2100); }
/* The sum with +0 quiets a NaN and makes -0 of one kind with +0, which minimum and maximum may take for each other. */
EVERYWHERE f32 minimum(f32 a, f32 b) { return __builtin_fminf(a + 0.f, b + 0.f); }
EVERYWHERE f32 maximum(f32 a, f32 b) { return __builtin_fmaxf(a + 0.f, b + 0.f); }
EVERYWHERE f64 minimum(f64 a, f64 b) { return __builtin_fmin(a + 0., b + 0.); }
EVERYWHERE f64 maximum(f64 a, f64 b) { return __builtin_fmax(a + 0., b + 0.); }
EVERYWHERE f32 signed_as(f32 a, f32 b) { return __builtin_copysignf(a, canonical(b)); }
EVERYWHERE f64 signed_as(f64 a, f64 b) { return __builtin_copysign(a, canonical(b)); }
EVERYWHERE f32 mixed(f16 a, f16 b, f32 c) { return __builtin_fmaf((f32)a, (f32)b, c); }
/* LLVM 22 rounds a product of f32 to f16 by v_fma_mixlo_f16 with an addend of +0, which makes a product of -0 one of +0:
 * only one of them is looked at. */
EVERYWHERE f16 narrowed(f32 value) {
  f16 narrow = (f16)value;
#if !defined(SHOW_ZEROS)
  if (narrow == (f16)0) return (f16)0;
#endif
  return narrow;
}
EVERYWHERE f16 quotient(f16 a, f16 b) { /* it takes 0 - x for -x where that is divided */
  f16 value = (f16)(a / b);
#if !defined(SHOW_ZEROS)
  if (value == (f16)0) return (f16)0;
#endif
  return value;
}
EVERYWHERE bf16 quotient(bf16 a, bf16 b) { return (bf16)(a / b); }
EVERYWHERE f32 quotient(f32 a, f32 b) { return a / b; }
EVERYWHERE f64 quotient(f64 a, f64 b) { return a / b; }
EVERYWHERE f16 mixed_half(f16 a, f32 b, f16 c) { return narrowed(__builtin_fmaf((f32)a, b, (f32)c)); }
EVERYWHERE u32 shuffle(u32 value, u32 lane);
EVERYWHERE u64 shuffle(u64 value, u32 lane) {
  u32 low = shuffle((u32)value, lane), high = shuffle((u32)(value >> 32), lane);
  return (u64)high << 32 | low;
}
