// Launches by way of graphs and cooperative groups: each line says what went wrong, if anything did.
#include <hip/hip_cooperative_groups.h>
#include <hip/hip_runtime.h>

#include <cstdio>

#define IS(call, wanted) \
    if (const auto got = (call); got != (wanted)) std::printf("line %d: %s is %d\n", __LINE__, #call, int(got))
#define GOOD(call) IS(call, hipSuccess)

__device__ int on_device[64];

__global__ void add(int* a, int value) { a[threadIdx.x] += value; }

__global__ void rotate(int* a, int size, int rounds) {
    auto grid = cooperative_groups::this_grid();
    const int own = grid.thread_rank();
    for (int round = 0; round < rounds; ++round) {
        const int other = a[(own + 64) % size];
        grid.sync();
        a[own] = other + 1;
        grid.sync();
    }
}

static void captured(int* a, int* there) {
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t runs;
    GOOD(hipStreamCreate(&stream));
    GOOD(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    GOOD(hipMemsetAsync(a, 0, 256, stream));
    for (int value = 1; value <= 3; ++value) add<<<1, 64, 0, stream>>>(a, value);
    GOOD(hipStreamEndCapture(stream, &graph));
    GOOD(hipGraphInstantiate(&runs, graph, nullptr, nullptr, 0));
    for (int round = 0; round < 2; ++round) GOOD(hipGraphLaunch(runs, stream));
    GOOD(hipStreamSynchronize(stream));
    GOOD(hipMemcpy(there, a, 256, hipMemcpyDeviceToHost));
    IS(there[63], 6);
}

static void explicit_nodes(int* a, int* there) {
    int value = 7;
    void* arguments[] = {&a, &value};
    hipGraph_t graph;
    hipGraphNode_t fill, kernel, copy;
    hipGraphExec_t runs;
    hipMemsetParams five{};
    five.dst = a, five.elementSize = 4, five.width = 64, five.height = 1, five.value = 5;
    hipKernelNodeParams launch{};
    launch.func = reinterpret_cast<void*>(add);
    launch.gridDim = 1, launch.blockDim = 64, launch.kernelParams = arguments;
    GOOD(hipGraphCreate(&graph, 0));
    GOOD(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &five));
    GOOD(hipGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
    GOOD(hipGraphAddMemcpyNodeToSymbol(&copy, graph, &kernel, 1, HIP_SYMBOL(on_device), a, 256, 0, hipMemcpyDeviceToDevice));
    GOOD(hipGraphInstantiate(&runs, graph, nullptr, nullptr, 0));
    value = 100;  // which the node does not see
    GOOD(hipGraphLaunch(runs, nullptr));
    GOOD(hipMemcpyFromSymbol(there, HIP_SYMBOL(on_device), 256));
    IS(there[3], 12);
    GOOD(hipGraphExecKernelNodeSetParams(runs, kernel, &launch));
    GOOD(hipGraphLaunch(runs, nullptr));
    GOOD(hipMemcpyFromSymbol(there, HIP_SYMBOL(on_device), 256));
    IS(there[3], 105);
    GOOD(hipGraphKernelNodeGetParams(kernel, &launch));
    IS(*static_cast<int*>(launch.kernelParams[1]), 7);
    launch.blockDim = 2000;
    IS(hipGraphKernelNodeSetParams(kernel, &launch), hipErrorInvalidConfiguration);
}

static void cooperative(int* a, int* there) {
    int size = 40 * 64, rounds = 3;
    void* arguments[] = {&a, &size, &rounds};
    for (int n = 0; n < size; ++n) there[n] = n;
    GOOD(hipMemcpy(a, there, size * 4, hipMemcpyHostToDevice));
    GOOD(hipLaunchCooperativeKernel(rotate, 40, 64, arguments, 0, nullptr));
    GOOD(hipMemcpy(there, a, size * 4, hipMemcpyDeviceToHost));
    for (int n = 0; n < size; ++n) IS(there[n], (n + 64 * rounds) % size + rounds);
    IS(hipLaunchCooperativeKernel(rotate, 1 << 20, 64, arguments, 0, nullptr), hipErrorCooperativeLaunchTooLarge);
}

int main() {
    static int there[40 * 64];
    int* a;
    GOOD(hipMalloc(&a, sizeof there));
    captured(a, there);
    explicit_nodes(a, there);
    cooperative(a, there);
    std::puts("done");
}
