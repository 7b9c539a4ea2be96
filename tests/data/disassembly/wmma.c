/* A product of matrices by WMMA, without LDS; each wave makes one 16×16 tile. */
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef float float8 __attribute__((ext_vector_type(8)));

__attribute__((amdgpu_kernel)) void wmma_row_column(const half16* a, const half16* b, float8* c, int rounds) {
    int lane = __builtin_amdgcn_workitem_id_x() & 15;
    float8 sum = {0};
    for (int k = 0; k < rounds; ++k) {
        half16 x = a[k * 16 + lane], y = b[k * 16 + lane];
        sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, sum);
    }
    c[__builtin_amdgcn_workitem_id_x()] = sum;
}
