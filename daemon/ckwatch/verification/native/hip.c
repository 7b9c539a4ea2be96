/* The functions of AMD's HIP runtime on the machine of machine.h: here settings, launches and the emulator's own, the others
 * in the files that hip.h names, in graphs.c, capture.c, arrays.c, pools.c, contexts.c and stream_calls.c.
 *
 * Enumerators, structure offsets and the meaning of each call are those of HIP 7's hip_runtime_api.h. Addresses of the
 * device are addresses of this process.
 *
 * Environment:
 *   CKWATCH_EMULATOR_ARCH       gfx942 (default) or another of `processors` in code_object.c
 *   CKWATCH_EMULATOR_UNCHECKED  1: results only, without looking for undefined values, races and missing waits
 *   CKWATCH_EMULATOR_THREADS    default: the CPUs that this process may use
 *   CKWATCH_EMULATOR_LIMIT      instructions of a workgroup of up to four waves, 2.5e8 by default
 *   CKWATCH_EMULATOR_OBJDUMP    LLVM's disassembler
 *   CKWATCH_EMULATOR_ERRORS     a descriptor for what is said of a crash; standard error by default
 *   CKWATCH_EMULATOR_REPORT     a file; what was found is appended to it when the process ends
 *   CKWATCH_EMULATOR_MEMORY, CKWATCH_EMULATOR_PROGRESS_S  see watch.c
 *   CKWATCH_EMULATOR_OBJECTS    a folder for copies of the device code in which something was found
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "counting.h"
#include "dispatch.h"
#include "graphs.h"
#include "samples.h"
#include "watch.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__thread int current_device;

/* ---- What went wrong, in words ----------------------------------------------------------------------------------- */

static char *problem_text;
static bool is_problem_said; /* when it arose */
static __thread char *told_problem;

void set_problem(char *text) { /* which is the callee's from then on */
  if (!text) return;
  pthread_mutex_lock(&lock);
  free(problem_text);
  problem_text = text;
  is_problem_said = false;
  pthread_mutex_unlock(&lock);
}
int refuse(atomic_bool *said, const char *sentence) {
  if (!atomic_exchange(said, true)) {
    fprintf(stderr, "emulated %s: %s\n", device()->name, sentence);
    set_problem(strdup(sentence));
    is_problem_said = true;
  }
  return end(NOT_SUPPORTED);
}

/* ---- Settings ---------------------------------------------------------------------------------------------------- */

/* AMD's data sheets of MI210, MI300X, MI355X, RX 7900 XTX and RX 9070 XT, whose compute units are pairs; of gfx1250
 * nothing but its LDS is published. */
static const DeviceFacts facts[] = {
    [GFX90A] = {"gfx90a", 104, 1700000, 1600000, 4096, 8 << 20, 64 << 10, 9, 0},
    [GFX942] = {"gfx942", 304, 2100000, 1300000, 8192, 4 << 20, 64 << 10, 9, 4},
    [GFX950] = {"gfx950", 256, 2400000, 2000000, 8192, 4 << 20, 160 << 10, 9, 5},
    [GFX1100] = {"gfx1100", 48, 2500000, 1250000, 384, 6 << 20, 64 << 10, 11, 0},
    [GFX1201] = {"gfx1201", 32, 2970000, 1258000, 256, 8 << 20, 64 << 10, 12, 0},
    [GFX1250] = {"gfx1250", 128, 2100000, 2000000, 8192, 4 << 20, 320 << 10, 12, 5},
};

static pthread_once_t settled = PTHREAD_ONCE_INIT;
static Arch arch;
static DeviceFacts own_facts;
static bool is_arch_known;
static atomic_bool checked, traced, judged;
static uint64_t instruction_limit;
static Choice choice = {UINT32_MAX, 0, false};
static LaunchCounts counts;

static void settle(void) {
  const char *unchecked = getenv("CKWATCH_EMULATOR_UNCHECKED"), *limit = getenv("CKWATCH_EMULATOR_LIMIT");
  const char *name = getenv("CKWATCH_EMULATOR_ARCH");
  if (!name || !*name) name = told_text("ARCH", "gfx942");
  checked = !(unchecked && *unchecked && strcmp(unchecked, "0") != 0);
  instruction_limit = limit && *limit ? (uint64_t)strtod(limit, NULL) : 250000000;
  char *problem = NULL;
  is_arch_known = arch_named(name, &arch);
  own_facts = facts[arch];
  if (is_arch_known) own_facts.name = name_device(name);
  if (!is_arch_known && asprintf(&problem, "%s is no arch that is emulated", name) > 0)
    set_problem(problem);
}
const DeviceFacts *device(void) {
  pthread_once(&settled, settle);
  return &own_facts;
}
int devices(void) {
  pthread_once(&settled, settle);
  return is_arch_known ? (int)told_number("DEVICES", 1) : 0;
}
bool is_device(int number) { return number >= 0 && number < devices(); }
Arch device_arch(void) {
  pthread_once(&settled, settle);
  return arch;
}
bool is_checked(void) { return checked; }

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

enum { APART = 64 << 10 }; /* between the memory that a launch itself has */

typedef struct {
  Launch launch;
  Choice choice;
  uint8_t *memory;
  size_t memory_bytes;
} QueuedLaunch;

static _Atomic uint64_t dispatches;

static void forget_launch(QueuedLaunch *queued) {
  if (queued->launch.kernarg) remove_region((uint64_t)(uintptr_t)queued->launch.kernarg);
  if (queued->launch.packet) remove_region((uint64_t)(uintptr_t)queued->launch.packet);
  if (queued->launch.queue) remove_region((uint64_t)(uintptr_t)queued->launch.queue);
  if (queued->launch.grid_sync) remove_region((uint64_t)(uintptr_t)queued->launch.grid_sync);
  unmap_guarded(queued->memory, queued->memory_bytes);
  free(queued);
}

static void run_queued(void *argument) {
  QueuedLaunch *queued = argument;
  LaunchCounts now = {0};
  if (!broken) run_launch(&queued->launch, queued->choice, &now);
  pthread_mutex_lock(&lock);
  counts.executed += now.executed;
  counts.computed += now.computed;
  counts.all += now.all;
  counts.whole_cost += now.whole_cost;
  pthread_mutex_unlock(&lock);
  if (now.stopped) break_device(LAUNCH_FAILURE);
  forget_launch(queued);
}

/* Arguments as the caller has them: one pointer for each, or all of them in a buffer. */
int fill_arguments(const Kernel *kernel, uint8_t *kernarg, void **parameters, void **extra) {
  enum { BUFFER_POINTER = 1, BUFFER_SIZE, LAUNCH_PARAM_END };
  if (extra) {
    const void *buffer = NULL;
    size_t size = 0;
    for (; (uintptr_t)*extra != LAUNCH_PARAM_END; extra += 2) {
      if ((uintptr_t)*extra == BUFFER_POINTER) buffer = extra[1];
      else if ((uintptr_t)*extra == BUFFER_SIZE) size = *(const size_t *)extra[1];
      else return INVALID_VALUE;
    }
    if (!buffer && size) return INVALID_VALUE;
    memcpy(kernarg, buffer, size < kernel->kernarg_bytes ? size : kernel->kernarg_bytes);
    return SUCCESS;
  }
  uint32_t given = 0;
  for (uint32_t n = 0; n < kernel->argument_count; n++) {
    const KernelArgument *argument = &kernel->arguments[n];
    if (argument->kind != BY_VALUE && argument->kind != DYNAMIC_SHARED_POINTER) continue;
    if (!parameters || !parameters[given]) return INVALID_VALUE;
    memcpy(kernarg + argument->offset, parameters[given++], argument->size);
  }
  return SUCCESS;
}

/* Workgroups of a kernel on one compute unit: four SIMDs of 512 registers for 8 waves at most, and its LDS. */
static int workgroups_per_unit(const Kernel *kernel, int items, size_t shared) {
  if (items <= 0 || items > (int)kernel->max_workgroup) return 0;
  int lanes = (int)kernel->lanes, waves = (items + lanes - 1) / lanes, by_registers = 512 / (int)kernel->vgprs;
  int resident = 4 * (by_registers > 8 ? 8 : by_registers), fit = resident / waves;
  size_t lds = kernel->lds_bytes + shared;
  int by_lds = lds ? (int)((size_t)device()->lds_bytes / lds) : fit;
  return fit < by_lds ? fit : by_lds;
}
int check_launch(const Kernel *kernel, Dim3 grid, Dim3 block, size_t shared, bool is_cooperative) {
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return INVALID_CONFIGURATION;
  uint64_t items = (uint64_t)block.x * block.y;
  if (items > 1024 || (items *= block.z) > 1024) return INVALID_CONFIGURATION;
  if ((uint64_t)grid.x * block.x > UINT32_MAX || (uint64_t)grid.y * block.y > UINT32_MAX ||
      (uint64_t)grid.z * block.z > UINT32_MAX)
    return INVALID_CONFIGURATION;
  if (items > kernel->max_workgroup) return LAUNCH_FAILURE; /* __launch_bounds__ */
  if (shared > (size_t)device()->lds_bytes || kernel->lds_bytes + shared > (size_t)device()->lds_bytes)
    return OUT_OF_RESOURCES;
  uint64_t most = (uint64_t)workgroups_per_unit(kernel, (int)items, shared) * (uint64_t)device()->compute_units;
  return is_cooperative && (unsigned __int128)grid.x * grid.y * grid.z > most ? COOPERATIVE_LAUNCH_TOO_LARGE : SUCCESS;
}

static int put_launch(Stream *stream, Kernel *kernel, Dim3 grid, Dim3 block, void **parameters, void **extra,
                      size_t shared, bool is_cooperative, Event *begin, Event *finish) {
  char *problem;
  const Code *code = code_of(kernel->object, &problem);
  if (!code) {
    set_problem(problem);
    return INIT_FAILED;
  }
  QueuedLaunch *queued = calloc(1, sizeof *queued);
  if (!queued) return OUT_OF_MEMORY;
  size_t argument_bytes = (kernel->kernarg_bytes + 15u) & ~15u;
  queued->memory_bytes = ((argument_bytes + 255) & ~(size_t)255) + 3 * APART + QUEUE_BYTES;
  queued->memory = map_guarded(queued->memory_bytes);
  if (!queued->memory) {
    free(queued);
    return OUT_OF_MEMORY;
  }
  Launch *launch = &queued->launch;
  launch->kernel = kernel;
  launch->code = code;
  launch->arch = arch;
  memcpy(launch->grid, &grid, sizeof launch->grid);
  memcpy(launch->block, &block, sizeof launch->block);
  launch->dynamic_lds = (uint32_t)shared;
  launch->profiled = is_counting();
  launch->checked = checked && !launch->profiled;
  launch->traced = traced;
  launch->judged = judged;
  launch->is_cooperative = is_cooperative;
  uint32_t items = block.x * block.y * block.z;
  launch->lanes = kernel->lanes;
  launch->waves = (items + launch->lanes - 1) / launch->lanes;
  launch->instruction_limit = launch->waves > 4 ? instruction_limit / 4 * launch->waves : instruction_limit;
  launch->dispatch_id = dispatches++;
  int error = fill_arguments(kernel, queued->memory, parameters, extra);
  if (error) {
    forget_launch(queued);
    return error;
  }
  if (argument_bytes) {
    launch->kernarg = queued->memory;
    add_region((uint64_t)(uintptr_t)launch->kernarg, argument_bytes, KERNEL_ARGUMENTS);
  }
  uint8_t *at = queued->memory + ((argument_bytes + 255) & ~(size_t)255) + APART;
  if (wants_packet(kernel)) {
    fill_packet(launch, at);
    launch->packet = at;
    add_region((uint64_t)(uintptr_t)at, PACKET_BYTES, KERNEL_ARGUMENTS);
  }
  at += APART;
  if (wants_queue(kernel)) {
    fill_queue(at);
    launch->queue = at;
    add_region((uint64_t)(uintptr_t)at, QUEUE_BYTES, KERNEL_ARGUMENTS);
  }
  at += APART;
  if (wants_grid_sync(launch)) {
    fill_grid_sync(launch, at);
    launch->grid_sync = at;
    add_region((uint64_t)(uintptr_t)at, GRID_SYNC_BYTES, DEVICE_MEMORY);
  }
  if (argument_bytes) fill_hidden_arguments(launch);
  pthread_mutex_lock(&lock);
  queued->choice = choice;
  pthread_mutex_unlock(&lock);
  if (begin) put_record(stream, begin);
  put_call(stream, run_queued, queued);
  if (finish) put_record(stream, finish);
  return SUCCESS;
}

int launch_operation(Stream *stream, const Operation *operation) {
  const KernelNode *node = &operation->kernel.node;
  if (!is_kernel(operation->kernel.code)) return INVALID_HANDLE; /* its module is gone */
  return put_launch(stream, operation->kernel.code, node->grid, node->block, node->parameters, NULL, node->shared,
                    operation->kernel.is_cooperative, NULL, NULL);
}

static int launch_kernel(Kernel *kernel, void *function, Dim3 grid, Dim3 block, void **parameters, void **extra,
                         size_t shared, void *handle, bool is_cooperative, void *begin, void *finish) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if ((begin && !is_event(begin)) || (finish && !is_event(finish))) return INVALID_HANDLE;
  if (parameters && extra) return INVALID_VALUE;
  int error = check_launch(kernel, grid, block, shared, is_cooperative);
  if (error) return error;
  if (!is_capturing(stream)) /* which would copy the arguments once more */
    return put_launch(stream, kernel, grid, block, parameters, extra, shared, is_cooperative, begin, finish);
  KernelNode node = {block, extra, function, grid, parameters, (unsigned)shared};
  Operation operation;
  error = kernel_operation(&operation, &node, kernel, is_cooperative);
  if (error) return error;
  error = submit(handle, &operation);
  free_operation(&operation);
  return error;
}

static int launch_host(const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream,
                       bool is_cooperative, void *begin, void *finish) {
  Kernel *kernel;
  if (!devices()) return NO_DEVICE;
  int error = kernel_of_host(host, &kernel);
  return error ? error
               : launch_kernel(kernel, (void *)host, grid, block, parameters, NULL, shared, stream, is_cooperative, begin,
                               finish);
}
static int launch_function(void *function, Dim3 grid, Dim3 block, size_t shared, void *stream, void **parameters,
                           void **extra, bool is_cooperative, void *begin, void *finish) {
  if (!is_kernel(function)) return INVALID_HANDLE;
  return launch_kernel(function, function, grid, block, parameters, extra, shared, stream, is_cooperative, begin, finish);
}
static bool has_cooperative(const LaunchAttribute *attributes, unsigned count) {
  enum { COOPERATIVE = 2 }; /* hipLaunchAttributeCooperative */
  for (unsigned n = 0; n < count; n++)
    if (attributes[n].number == COOPERATIVE && attributes[n].value) return true;
  return false;
}

CALL(hipLaunchKernel, (const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream),
     launch_host(host, grid, block, parameters, shared, stream, false, NULL, NULL))
CALL(hipLaunchKernel_spt, (const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream),
     launch_host(host, grid, block, parameters, shared, per_thread(stream), false, NULL, NULL))
CALL(hipExtLaunchKernel, (const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream,
                          void *begin, void *finish, int flags),
     launch_host(host, grid, block, parameters, shared, stream, false, begin, finish))
CALL(hipLaunchCooperativeKernel, (const void *host, Dim3 grid, Dim3 block, void **parameters, unsigned shared,
                                  void *stream),
     launch_host(host, grid, block, parameters, shared, stream, true, NULL, NULL))
CALL(hipLaunchCooperativeKernel_spt, (const void *host, Dim3 grid, Dim3 block, void **parameters, unsigned shared,
                                      void *stream),
     launch_host(host, grid, block, parameters, shared, per_thread(stream), true, NULL, NULL))
CALL(hipLaunchKernelExC, (const LaunchConfig *config, const void *host, void **parameters),
     !config ? INVALID_VALUE
             : launch_host(host, config->grid, config->block, parameters, config->shared, config->stream,
                           has_cooperative(config->attributes, config->attribute_count), NULL, NULL))
CALL(hipDrvLaunchKernelEx, (const DriverLaunchConfig *config, void *function, void **parameters, void **extra),
     !config ? INVALID_VALUE
             : launch_function(function, config->grid, config->block, config->shared, config->stream, parameters, extra,
                               has_cooperative(config->attributes, config->attribute_count), NULL, NULL))
CALL(hipModuleLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                             void **extra),
     launch_function(function, (Dim3){grid_x, grid_y, grid_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                     parameters, extra, false, NULL, NULL))
CALL(hipModuleLaunchCooperativeKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                        void *stream, void **parameters),
     launch_function(function, (Dim3){grid_x, grid_y, grid_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                     parameters, NULL, true, NULL, NULL))

/* Sizes of the grid in work-items; only whole workgroups. */
static int launch_items(void *function, Dim3 items, Dim3 block, size_t shared, void *stream, void **parameters,
                        void **extra, void *begin, void *finish) {
  if (!block.x || !block.y || !block.z) return INVALID_CONFIGURATION;
  if (items.x % block.x || items.y % block.y || items.z % block.z) return NOT_SUPPORTED;
  return launch_function(function, (Dim3){items.x / block.x, items.y / block.y, items.z / block.z}, block, shared,
                         stream, parameters, extra, false, begin, finish);
}
CALL(hipExtModuleLaunchKernel, (void *function, uint32_t items_x, uint32_t items_y, uint32_t items_z, uint32_t block_x,
                                uint32_t block_y, uint32_t block_z, size_t shared, void *stream, void **parameters,
                                void **extra, void *begin, void *finish, uint32_t flags),
     launch_items(function, (Dim3){items_x, items_y, items_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                  parameters, extra, begin, finish))
CALL(hipHccModuleLaunchKernel, (void *function, uint32_t items_x, uint32_t items_y, uint32_t items_z, uint32_t block_x,
                                uint32_t block_y, uint32_t block_z, size_t shared, void *stream, void **parameters,
                                void **extra, void *begin, void *finish),
     launch_items(function, (Dim3){items_x, items_y, items_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                  parameters, extra, begin, finish))
/* Programs in C++ that declare them without extern "C". */
#define ALIAS(name) __attribute__((visibility("default"), alias(#name))) int
ALIAS(hipExtModuleLaunchKernel)
_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j();
ALIAS(hipHccModuleLaunchKernel)
_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_();
enum { MOST_CONFIGURATIONS = 16 };
static __thread struct {
  Dim3 grid, block;
  size_t shared;
  void *stream;
} configurations[MOST_CONFIGURATIONS];
static __thread int configuration_count;

EXPORT int __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void *stream) {
  if (configuration_count == MOST_CONFIGURATIONS) return end(INVALID_VALUE);
  configurations[configuration_count].grid = grid;
  configurations[configuration_count].block = block;
  configurations[configuration_count].shared = shared;
  configurations[configuration_count++].stream = stream;
  return SUCCESS;
}
EXPORT int __hipPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, void **stream) {
  if (!configuration_count) return end(52); /* hipErrorMissingConfiguration */
  configuration_count--;
  *grid = configurations[configuration_count].grid;
  *block = configurations[configuration_count].block;
  *shared = configurations[configuration_count].shared;
  *stream = configurations[configuration_count].stream;
  return SUCCESS;
}

/* ---- What kernels need ------------------------------------------------------------------------------------------- */

EXPORT int hipFuncGetAttributes(FunctionAttributes *attributes, const void *host) {
  ENTER(hipFuncGetAttributes);
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  if (error || !attributes) return end(error ? error : INVALID_VALUE);
  *attributes = (FunctionAttributes){.binary_version = 90, .local_bytes = kernel->scratch_bytes,
                                     .most_dynamic_shared = device()->lds_bytes - (int)kernel->lds_bytes,
                                     .most_threads = (int)kernel->max_workgroup, .registers = (int)kernel->vgprs,
                                     .ptx_version = 30, .shared_bytes = kernel->lds_bytes};
  return SUCCESS;
}
EXPORT int hipFuncGetAttribute(int *value, int attribute, void *function) {
  enum { MAX_THREADS, SHARED_BYTES, CONST_BYTES, LOCAL_BYTES, REGISTERS, PTX, BINARY, CACHE_MODE, MAX_DYNAMIC };
  ENTER(hipFuncGetAttribute);
  if (!value || !is_kernel(function)) return end(value ? INVALID_HANDLE : INVALID_VALUE);
  const Kernel *kernel = function;
  switch (attribute) {
    case MAX_THREADS: *value = (int)kernel->max_workgroup; break;
    case SHARED_BYTES: *value = (int)kernel->lds_bytes; break;
    case LOCAL_BYTES: *value = (int)kernel->scratch_bytes; break;
    case REGISTERS: *value = (int)kernel->vgprs; break;
    case PTX: *value = 30; break;
    case BINARY: *value = 90; break;
    case MAX_DYNAMIC: *value = device()->lds_bytes - (int)kernel->lds_bytes; break;
    case CONST_BYTES: case CACHE_MODE: *value = 0; break;
    default: return end(INVALID_VALUE);
  }
  return SUCCESS;
}
EXPORT int hipFuncSetAttribute(const void *host, int attribute, int value) {
  ENTER(hipFuncSetAttribute);
  Kernel *kernel;
  return end(kernel_of_host(host, &kernel));
}
CALL(hipFuncSetCacheConfig, (const void *host, int config), SUCCESS)

static int occupancy_of_host(int *count, const void *host, int items, size_t shared) {
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  if (!error && !count) error = INVALID_VALUE;
  if (!error) *count = workgroups_per_unit(kernel, items, shared);
  return error;
}
CALL(hipOccupancyMaxActiveBlocksPerMultiprocessor, (int *count, const void *host, int items, size_t shared),
     occupancy_of_host(count, host, items, shared))
CALL(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *count, const void *host, int items, size_t shared,
                                                             unsigned flags),
     occupancy_of_host(count, host, items, shared))
static int occupancy_of_function(int *count, void *function, int items, size_t shared) {
  if (!count || !is_kernel(function)) return count ? INVALID_HANDLE : INVALID_VALUE;
  *count = workgroups_per_unit(function, items, shared);
  return SUCCESS;
}
CALL(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, (int *count, void *function, int items, size_t shared),
     occupancy_of_function(count, function, items, shared))
CALL(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *count, void *function, int items, size_t shared,
                                                                   unsigned flags),
     occupancy_of_function(count, function, items, shared))
static int best_block(int *grid, int *block, const Kernel *kernel, size_t shared, int limit) {
  if (!grid || !block) return INVALID_VALUE;
  int best = 0, most = limit > 0 && limit < (int)kernel->max_workgroup ? limit : (int)kernel->max_workgroup;
  for (int items = most; items > 0; items -= LANES) {
    int resident = workgroups_per_unit(kernel, items, shared) * items;
    if (resident > best) best = resident, *block = items;
  }
  if (!best) return OUT_OF_RESOURCES;
  *grid = device()->compute_units * (best / *block);
  return SUCCESS;
}
static int best_block_of_host(int *grid, int *block, const void *host, size_t shared, int limit) {
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  return error ? error : best_block(grid, block, kernel, shared, limit);
}
CALL(hipOccupancyMaxPotentialBlockSize, (int *grid, int *block, const void *host, size_t shared, int limit),
     best_block_of_host(grid, block, host, shared, limit))
CALL(hipModuleOccupancyMaxPotentialBlockSize, (int *grid, int *block, void *function, size_t shared, int limit),
     is_kernel(function) ? best_block(grid, block, function, shared, limit) : INVALID_HANDLE)
CALL(hipModuleOccupancyMaxPotentialBlockSizeWithFlags, (int *grid, int *block, void *function, size_t shared, int limit,
                                                        unsigned flags),
     is_kernel(function) ? best_block(grid, block, function, shared, limit) : INVALID_HANDLE)
static int free_shared(size_t *bytes, const void *host, int count, int items) {
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  if (error || !bytes || count <= 0) return error ? error : INVALID_VALUE;
  size_t share = (size_t)device()->lds_bytes / (size_t)count;
  *bytes = workgroups_per_unit(kernel, items, 0) >= count && share > kernel->lds_bytes ? share - kernel->lds_bytes : 0;
  return SUCCESS;
}
CALL(hipOccupancyAvailableDynamicSMemPerBlock, (size_t *bytes, const void *host, int count, int items),
     free_shared(bytes, host, count, items))

/* ---- The emulator's own ------------------------------------------------------------------------------------------ */

EXPORT uint32_t ckwatch_emulator_finding_count(void) { return finding_count(); }
EXPORT char *ckwatch_emulator_finding(uint32_t n) { return finding_json(n); } /* for ckwatch_emulator_free */
EXPORT void ckwatch_emulator_free(void *memory) { free(memory); }
EXPORT void ckwatch_emulator_set_checked(int value) {
  pthread_once(&settled, settle);
  checked = value != 0;
}
EXPORT void ckwatch_emulator_set_traced(int value) { traced = value != 0; }
EXPORT void ckwatch_emulator_set_judged(int value) { judged = value != 0; }
EXPORT void ckwatch_emulator_hold_others(void *stream) { hold_others(stream ? stream_of(stream) : NULL); }
EXPORT int ckwatch_emulator_reserve(void **address, uint64_t size) { return end(reserve(address, size)); }
EXPORT void ckwatch_emulator_mark_undefined(const void *address, uint64_t size) {
  mark_undefined((uint64_t)(uintptr_t)address, size, true);
}
/* One byte for each byte of memory: 1 where nothing has written it. */
EXPORT void ckwatch_emulator_undefined(const void *address, uint64_t size, uint8_t *bytes) {
  uint64_t at = (uint64_t)(uintptr_t)address;
  const Region *region = region_of(at);
  memset(bytes, 0, size);
  if (!region || !region->undefined) return;
  uint64_t rest = region->base + region->size - at;
  memcpy(bytes, region->undefined + (at - region->base), size < rest ? size : rest);
}
/* How many workgroups of each later launch are computed, and which: 0 for all. */
EXPORT void ckwatch_emulator_choose(uint32_t workgroups, uint64_t seed) {
  pthread_mutex_lock(&lock);
  choice = (Choice){workgroups ? workgroups : UINT32_MAX, seed, false};
  pthread_mutex_unlock(&lock);
}
/* The same for kernels of which nothing is known, between a beginning and an end. */
EXPORT void ckwatch_emulator_begin_sample(uint32_t workgroups, uint64_t seed) {
  drain_all();
  begin_sample();
  pthread_mutex_lock(&lock);
  choice = (Choice){workgroups, seed, true};
  pthread_mutex_unlock(&lock);
}
/* Why the sample is not what it would be among all workgroups; NULL: it is. */
EXPORT const char *ckwatch_emulator_end_sample(void) {
  drain_all();
  end_sample();
  pthread_mutex_lock(&lock);
  choice = (Choice){UINT32_MAX, 0, false};
  pthread_mutex_unlock(&lock);
  return why_whole();
}
/* One byte for each byte of memory: 1 where a kernel of the last sample has written it. */
EXPORT void ckwatch_emulator_sampled(const void *address, uint64_t size, uint8_t *bytes) {
  sampled_bytes((uint64_t)(uintptr_t)address, size, bytes);
}
/* What all workgroups of the launches since the last ckwatch_emulator_clear cost, by those that were computed. */
EXPORT uint64_t ckwatch_emulator_whole_cost(void) {
  drain_all();
  pthread_mutex_lock(&lock);
  uint64_t cost = counts.whole_cost;
  pthread_mutex_unlock(&lock);
  return cost;
}
/* Later launches report the last writer of this memory; of none where it has no bytes. */
EXPORT void ckwatch_emulator_watch(const void *address, uint64_t size) {
  drain_all();
  watch_memory((uint64_t)(uintptr_t)address, size);
}
/* Of all launches since the last ckwatch_emulator_clear. */
EXPORT void ckwatch_emulator_counts(uint64_t *executed, uint64_t *workgroups, uint64_t *of_workgroups) {
  drain_all();
  pthread_mutex_lock(&lock);
  if (executed) *executed = counts.executed;
  if (workgroups) *workgroups = counts.computed;
  if (of_workgroups) *of_workgroups = counts.all;
  pthread_mutex_unlock(&lock);
}
/* Forgets findings, counts, the last problem, and an error that stays. */
EXPORT void ckwatch_emulator_clear(void) {
  drain_all();
  clear_findings();
  pthread_mutex_lock(&lock);
  counts = (LaunchCounts){0};
  free(problem_text);
  problem_text = NULL;
  broken = 0;
  pthread_mutex_unlock(&lock);
  forget_last_error();
}
/* The last problem in words, until this thread asks again; NULL when there is none. */
EXPORT const char *ckwatch_emulator_problem(void) {
  pthread_mutex_lock(&lock);
  free(told_problem);
  told_problem = problem_text ? strdup(problem_text) : NULL;
  pthread_mutex_unlock(&lock);
  return told_problem;
}

__attribute__((destructor)) void append_report(void) {
  const char *path = getenv("CKWATCH_EMULATOR_REPORT");
  FILE *file = path && *path ? fopen(path, "a") : NULL;
  if (!file) return;
  char *text;
  for (uint32_t n = 0; (text = finding_json(n)); n++) {
    fprintf(file, "%s\n", text);
    free(text);
  }
  if (problem_text && !is_problem_said) fprintf(stderr, "emulated %s: %s\n", device()->name, problem_text);
  fclose(file);
}
