"""The kinds of LLVM 22's mistakes that docs/verifying.md lists, as short kernels whose results differ from the host's."""

from __future__ import annotations

from random_programs.programs import STRIPE_BYTES, Kernel, Statement

ON_ALL = {
    "merged_paths": """
  i16 v = get<i16>(mine + 14);
  f16 w = get<f16>(in + 1552), x = get<f16>(in + 1712);
  u16x4 y = get<u16x4>(in + 704);
  switch (lane() & 7) {
    case 0: v = 1; [[fallthrough]];
    case 3: w = (f16)thread(); break;
    case 2: y = u16x4{10, 32768, 1, 3}; [[fallthrough]];
    case 9: break;
    default: x = (f16)1;
  }
  put(stripe, v);
  put(stripe + 16, w);
  put(stripe + 32, y);""",
    "all_ones": "put(stripe, get<u32x2>(in + 2992) | u32x2{3304302074u, 4294967295u});",
    "half_of_a_byte_product": "put(stripe, divide<i8>((i8)(get<i8>(in + 352) * get<i8>(in + 1648)), (i8)2));",
    "quotient_of_24_bits": "put(stripe, 16744447u % (thread() | 1));",
    "load_behind_a_barrier": """
  i8 v = get<i8>(in + 1952);
  i32 w = 0;
  f64 x = 0;
  SHARED(u16x4, s, THREADS);
  s[thread()] = u16x4{7, 32243, 641, 641};
  barrier();
  x = minimum((f64)s[0][2], -7.25);
  barrier();
  w = (u8)v >= 1 ? (i32)lane() : (i32)to_integer<u32>(get<f16>(mine + 26));
  s[thread()] = u16x4{0, 0, 0, 0};
  barrier();
  put(stripe, w);
  put(stripe + 16, x);""",
    "negated_zero": "put(stripe, root(0.f - (f32)get<u8>(mine + 22)));",
    "minimum_with_zero": "put(stripe, lesser(get<f16>(mine + 16), (f16)0));",
    "pair_with_negative_zero": "put(stripe, -f16x2{(f16)get<i16>(in + 1664), (f16)0.f});",
}
"""Bodies that go wrong on each arch at -O2, by what is wrong; they store into the thread's stripe."""

ON_GFX9 = {
    "extended_without_sign": "put(stripe, bits_of<u16>((f16)same_bits<f32>((u32)(i16)get<u32>(mine + 4))));",
}

ON_GFX11 = {
    "lost_half": """
  i8 v = get<i8>(in + 1104);
  bf16 w = get<bf16>(in + 2560), x = get<bf16>(mine);
  u16 a[8];
  for (u32 i = 0; i < 8; i++) a[i] = get<u16>(in);
  a[0] = to_integer<u16>(x);
  if (thread() >> 3) v = (i8)(to_integer<i8>(w) * v);
  put(stripe, v);
  for (u32 i = 0; i < 8; i++) put(stripe + 16 + i * 2, a[i]);""",
}


def mistaken(arch: str) -> list[Kernel]:
    """Return the kernels that LLVM 22 compiles wrongly for `arch` at -O2."""
    bodies = ON_ALL | (ON_GFX9 if arch.startswith("gfx9") else ON_GFX11 if arch == "gfx1100" else {})
    return [_kernel(name, body) for name, body in bodies.items()]


def _kernel(name: str, body: str) -> Kernel:
    head = (
        f"KERNEL({name}) {{\n  u8 *const stripe = out + (group() * THREADS + thread()) * {STRIPE_BYTES}u;\n"
        "  [[maybe_unused]] const u8 *const mine = in + (group() * THREADS + thread()) * 32u;\n"
    )
    return Kernel(name, [], Statement(head, [Statement(body)], "}"), {})
