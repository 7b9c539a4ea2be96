// Kernels whose resources lie at the limits that the rules know: registers, LDS, workgroup sizes.
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads)))

// as many registers at once, without an instruction for them
template <int Count>
static __attribute__((device)) void held() {
    float values[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("; %0 is defined" : "=v"(values[i]));
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("; %0 is used" ::"v"(values[i]));
}

template <int Count>
static __attribute__((device)) void held_scalar() {
    int values[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("; %0 is defined" : "=s"(values[i]));
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("; %0 is used" ::"s"(values[i]));
}

template <int Bytes>
static __attribute__((device)) void shared_bytes(float* data, int at) {
    __attribute__((shared)) static char lds[Bytes];
    lds[at] = static_cast<char>(data[at]);
    __builtin_amdgcn_s_barrier();
    data[at] = lds[Bytes - 1 - at];
}

KERNEL(1024) void nothing() {}
KERNEL(64) void registers_20() { held<20>(); }
KERNEL(256) void registers_70() { held<70>(); }
KERNEL(256) void registers_110() { held<110>(); }
KERNEL(512) void registers_140() { held<140>(); }
KERNEL(256) void registers_230() { held<230>(); }
KERNEL(256) void registers_330() { held<330>(); }
KERNEL(256) void scalars_60() { held_scalar<60>(); }
KERNEL(256) void scalars_90() { held_scalar<90>(); }
KERNEL(256) void scalars_99() { held_scalar<99>(); }
KERNEL(256) void scalars_120() { held_scalar<120>(); }
KERNEL(1024) void spilling() { held<200>(); }
KERNEL(256) void lds_32k(float* data, int at) { shared_bytes<32768>(data, at); }
KERNEL(256) void lds_64k(float* data, int at) { shared_bytes<65536>(data, at); }
KERNEL(64) void lds_9000(float* data, int at) { shared_bytes<9000>(data, at); }
KERNEL(64) void lds_100(float* data, int at) { shared_bytes<100>(data, at); }
KERNEL(256) void lds_21800(float* data, int at) { shared_bytes<21800>(data, at); }
KERNEL(576) void lds_7000_of_576(float* data, int at) { shared_bytes<7000>(data, at); }
KERNEL(320) void lds_24000_of_320(float* data, int at) { shared_bytes<24000>(data, at); }
KERNEL(1024) void lds_100_of_1024(float* data, int at) { shared_bytes<100>(data, at); }
extern "C" __attribute__((shared)) float dynamic_lds[];
KERNEL(256) void lds_given_at_launch(float* data, int at) { data[at] = dynamic_lds[at]; }
KERNEL(256) void scratch(float* data, int at, int count) {
    volatile float values[100];
    for (int i = 0; i < count; ++i) values[i * at % 100] = data[i];
    data[at] = values[count];
}
KERNEL(576) void nothing_of_576() {}
KERNEL(320) void nothing_of_320() {}
KERNEL(576) void lds_2100_of_576(float* data, int at) { shared_bytes<2100>(data, at); }
KERNEL(448) void lds_3200_of_448(float* data, int at) { shared_bytes<3200>(data, at); }
KERNEL(1024) void lds_40000_of_1024(float* data, int at) { shared_bytes<40000>(data, at); }
