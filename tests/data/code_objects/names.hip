// Stand-ins for CK's kernels, which are named as CK names its own: only their symbols are of interest.
#define KERNEL __attribute__((global)) void
namespace ck {
using half_t = _Float16;
using index_t = int;
template <index_t... Is> struct Sequence {};
template <typename... Ts> struct Tuple {};
enum struct InMemoryDataOperationEnum { Set, AtomicAdd, AtomicMax, Add };
enum struct TailNumber { Odd, Even, One, Two, Three, Four, Five, Six, Seven, Empty, Full };
enum struct BlockGemmPipelineScheduler { Intrawave, Interwave };
enum struct BlockGemmPipelineVersion { v1, v2, v3, v4, v5 };
namespace tensor_layout::gemm { struct RowMajor {}; struct ColumnMajor {}; }
namespace tensor_operation::device { enum struct GemmSpecialization { Default, MPadding, NPadding, KPadding, MNPadding, MKPadding, NKPadding, MNKPadding }; }
namespace tensor_operation::element_wise { struct PassThrough {}; struct MultiplyAdd {}; }

template <typename ALayout, typename BLayout, typename CLayout, typename AData, typename BData, typename AccData,
          typename AOperation, typename COperation, tensor_operation::device::GemmSpecialization GemmSpec,
          index_t BlockSize, index_t MPerBlock, index_t NPerBlock, index_t KPerBlock, typename ThreadCluster,
          BlockGemmPipelineScheduler Scheduler, BlockGemmPipelineVersion Version>
struct GridwiseGemm_xdl_cshuffle_v3 { struct Argument { AData* a; BData* b; AccData* c; }; };

template <typename Gridwise, bool HasMainKBlockLoop, InMemoryDataOperationEnum Operation, index_t MinimumOccupancy = 1, TailNumber Tail = TailNumber::Full>
KERNEL kernel_gemm_xdl_cshuffle_v3(typename Gridwise::Argument) {}
template <typename T> KERNEL set_buffer_value(T*, T, unsigned long) {}
template <typename Out, typename Operation> KERNEL kernel_elementwise(Out*, Operation) {}
static KERNEL flush_icache() {}

using tensor_layout::gemm::RowMajor;
using tensor_layout::gemm::ColumnMajor;
using tensor_operation::device::GemmSpecialization;
using tensor_operation::element_wise::PassThrough;
template <index_t MPerBlock, GemmSpecialization Spec, typename B = half_t>
using Gridwise = GridwiseGemm_xdl_cshuffle_v3<RowMajor, ColumnMajor, RowMajor, half_t, B, float, PassThrough, PassThrough, Spec, 256, MPerBlock, 128, 64,
    Sequence<8, 32, 1>, BlockGemmPipelineScheduler::Intrawave, BlockGemmPipelineVersion::v3>;
using Wide = Gridwise<256, GemmSpecialization::MNKPadding>;
using Narrow = Gridwise<128, GemmSpecialization::Default>;
template KERNEL kernel_gemm_xdl_cshuffle_v3<Wide, true, InMemoryDataOperationEnum::Set, 2, TailNumber::Full>(Wide::Argument);
template KERNEL kernel_gemm_xdl_cshuffle_v3<Wide, false, InMemoryDataOperationEnum::AtomicAdd, 2, TailNumber::Odd>(Wide::Argument);
template KERNEL kernel_gemm_xdl_cshuffle_v3<Narrow, true, InMemoryDataOperationEnum::Set, 2, TailNumber::Full>(Narrow::Argument);
template KERNEL set_buffer_value<float>(float*, float, unsigned long);
template KERNEL kernel_elementwise<half_t, Tuple<Sequence<1, 2>, PassThrough>>(half_t*, Tuple<Sequence<1, 2>, PassThrough>);
template KERNEL kernel_elementwise<const float* const, void (*)(float&, unsigned __int128)>(const float* const*, void (*)(float&, unsigned __int128));
}
namespace ck_tile {
template <int... Is> struct sequence {};
template <typename Shape, typename Policy> struct GemmPipelineAgBgCrCompV3 {};
template <typename Partitioner, typename Pipeline, typename Epilogue> struct GemmKernel { struct Kargs { int m; }; };
struct DefaultPolicy {}; struct CShuffleEpilogue {};
template <int MaxThreadPerBlock, int MinBlockPerCu, typename Kernel, typename... Args> KERNEL kentry(Args...) {}
static KERNEL flush_cache() {}
template <int K> using Kernel = GemmKernel<sequence<256, 256, K>, GemmPipelineAgBgCrCompV3<sequence<256, 256, K>, DefaultPolicy>, CShuffleEpilogue>;
template KERNEL kentry<256, 2, Kernel<32>, Kernel<32>::Kargs>(Kernel<32>::Kargs);
template KERNEL kentry<256, 2, Kernel<64>, Kernel<64>::Kargs>(Kernel<64>::Kargs);
}
namespace mine {
template <typename T, int... Sizes> KERNEL flush_icache(T* data) {}
template KERNEL flush_icache<double, -1, 7>(double*);
template <auto Value> KERNEL of_value() {}
template KERNEL of_value<3u>();
template KERNEL of_value<3ul>();
template KERNEL of_value<'a'>();
template <typename T> KERNEL twice(T*) {}
struct Inner { template <typename T> struct Deep { struct Type {}; }; };
template KERNEL twice<Inner::Deep<Inner::Deep<int[4]>::Type>>(Inner::Deep<Inner::Deep<int[4]>::Type>*);
KERNEL same(int) {}
KERNEL same(float) {}
typedef float float4v __attribute__((ext_vector_type(4)));
template KERNEL twice<float4v>(float4v*);
}
namespace theirs { KERNEL same(int) {} }
namespace { template <typename T> KERNEL in_nobodys(T) {} template KERNEL in_nobodys<int>(int); }
extern "C" KERNEL plain(int*) {}
template <typename F> KERNEL with(F f) { f(0); }
__attribute__((used)) void launches() { auto a = [] __attribute__((device)) (int) {}; auto b = [] __attribute__((device)) (float) {}; (void)&with<decltype(a)>; (void)&with<decltype(b)>; }
