/* Modules, their functions and variables, and what host programs register. */
#include "hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Function {
  const void *host;
  char *name;
  struct Function *next;
} Function;

typedef struct HostVariable {
  const void *host;
  char *name;
  size_t size;
  void **managed; /* where the program has the pointer, for __managed__ variables */
  struct HostVariable *next;
} HostVariable;

typedef struct Module {
  const void *wrapper; /* of a fat binary that has been registered and is loaded when it is first used; or NULL */
  CodeObject *object;
  int error;
  bool tried;
  Function *functions;
  HostVariable *variables;
  struct Module *next;
} Module;

static Module *modules;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before `lock` */

static Module *keep_module(Module wanted) {
  Module *module = malloc(sizeof *module);
  if (!module) abort();
  *module = wanted;
  pthread_mutex_lock(&modules_lock);
  module->next = modules;
  modules = module;
  pthread_mutex_unlock(&modules_lock);
  return module;
}

static void drop_module(Module *module) {
  drain_all();
  pthread_mutex_lock(&modules_lock);
  Module **link = &modules;
  while (*link && *link != module) link = &(*link)->next;
  if (*link) *link = module->next;
  pthread_mutex_unlock(&modules_lock);
  for (Function *one = module->functions, *next; one; one = next) {
    next = one->next;
    free(one->name);
    free(one);
  }
  for (HostVariable *one = module->variables, *next; one; one = next) {
    next = one->next;
    if (one->managed && *one->managed) release(*one->managed, true);
    free(one->name);
    free(one);
  }
  free_code_object(module->object);
  free(module);
}

static bool is_module(const Module *module) {
  pthread_mutex_lock(&modules_lock);
  const Module *found = modules;
  while (found && found != module) found = found->next;
  pthread_mutex_unlock(&modules_lock);
  return found;
}

static int load_registered(Module *module) { /* under modules_lock */
  if (module->tried) return module->error;
  module->tried = true;
  char *problem = NULL;
  module->error = (int)load_code_object(module->wrapper, sizeof(uint32_t) * 6, device_arch(), &module->object, &problem);
  set_problem(problem);
  for (HostVariable *one = module->variables; one && module->object; one = one->next) {
    uint64_t size, address = one->managed ? find_variable(module->object, one->name, &size) : 0;
    if (address && size == sizeof(void *)) memcpy((void *)(uintptr_t)address, one->managed, sizeof(void *));
  }
  return module->error;
}

EXPORT void **__hipRegisterFatBinary(const void *wrapper) {
  return (void **)keep_module((Module){.wrapper = wrapper});
}
EXPORT void __hipUnregisterFatBinary(void **handle) {
  if (handle) drop_module((Module *)handle);
}
EXPORT void __hipRegisterFunction(void **handle, const void *host, char *device_name, const char *name,
                                  unsigned threads, void *thread, void *block, Dim3 *block_size, Dim3 *grid_size,
                                  int *waves) {
  Module *module = (Module *)handle;
  Function *function = malloc(sizeof *function);
  if (!module || !function) abort();
  *function = (Function){host, strdup(name), module->functions};
  module->functions = function;
}
static void keep_variable(Module *module, const void *host, const char *name, size_t size, void **managed) {
  HostVariable *variable = malloc(sizeof *variable);
  if (!module || !variable) abort();
  *variable = (HostVariable){host, strdup(name), size, managed, module->variables};
  module->variables = variable;
}
EXPORT void __hipRegisterVar(void **handle, void *host, char *host_name, char *name, int external, size_t size,
                             int constant, int global) {
  keep_variable((Module *)handle, host, name, size, NULL);
}
EXPORT void __hipRegisterManagedVar(void *handle, void **pointer, void *initial, const char *name, size_t size,
                                    unsigned alignment) {
  if (allocate(pointer, size, HOST_MEMORY, 0, true) == SUCCESS && *pointer) memcpy(*pointer, initial, size);
  keep_variable((Module *)handle, pointer, name, size, pointer);
}
EXPORT void __hipRegisterTexture(void **handle, void *host, char *name, char *device_name, int external, int normalized,
                                 int type) {
}
EXPORT void __hipRegisterSurface(void **handle, void *host, char *name, char *device_name, int type, int external) {
}

int kernel_of_host(const void *host, Kernel **kernel) {
  int error = INVALID_DEVICE_FUNCTION;
  *kernel = NULL;
  pthread_mutex_lock(&modules_lock);
  for (Module *module = modules; module && !*kernel; module = module->next)
    for (const Function *one = module->functions; one; one = one->next)
      if (one->host == host) {
        /* HIP says the same whether there is no code for the device or no such kernel in it */
        if (load_registered(module) == SUCCESS) *kernel = find_kernel(module->object, one->name);
        else if (module->error != NOT_FOR_THIS_ARCH) error = module->error;
        break;
      }
  pthread_mutex_unlock(&modules_lock);
  return *kernel ? SUCCESS : error;
}

static int variable_of_host(const void *host, uint64_t *address, uint64_t *size) {
  int error = INVALID_SYMBOL;
  *address = 0;
  pthread_mutex_lock(&modules_lock);
  for (Module *module = modules; module && !*address; module = module->next)
    for (const HostVariable *one = module->variables; one; one = one->next)
      if (one->host == host) {
        error = load_registered(module);
        if (error) break;
        if (one->managed) *address = (uint64_t)(uintptr_t)*one->managed, *size = one->size;
        else *address = find_variable(module->object, one->name, size);
        error = *address ? SUCCESS : INVALID_SYMBOL;
        break;
      }
  pthread_mutex_unlock(&modules_lock);
  return error;
}

bool is_kernel(const Kernel *kernel) {
  bool found = false;
  pthread_mutex_lock(&modules_lock);
  for (const Module *module = modules; module && !found; module = module->next)
    found = module->object && kernel && find_kernel(module->object, kernel->name) == kernel;
  pthread_mutex_unlock(&modules_lock);
  return found;
}

static int load_module(void **handle, const void *image, size_t size) {
  if (!handle || !image) return INVALID_VALUE;
  if (!devices()) return NO_DEVICE;
  CodeObject *object;
  char *problem;
  int error = (int)load_code_object(image, size, device_arch(), &object, &problem);
  if (error) {
    set_problem(problem);
    return error;
  }
  *handle = keep_module((Module){.object = object, .tried = true});
  return SUCCESS;
}
CALL(hipModuleLoadData, (void **handle, const void *image), load_module(handle, image, SIZE_MAX))
CALL(hipModuleLoadFatBinary, (void **handle, const void *image), load_module(handle, image, SIZE_MAX))
CALL(hipLibraryLoadData, (void **handle, const void *image, int *options, void **values, unsigned count,
                          int *library_options, void **library_values, unsigned library_count),
     load_module(handle, image, SIZE_MAX))
CALL(hipModuleLoadDataEx, (void **handle, const void *image, unsigned count, int *options, void **values),
     load_module(handle, image, SIZE_MAX))
static int load_file(void **handle, const char *path) {
  if (!handle || !path) return INVALID_VALUE;
  FILE *file = fopen(path, "rb");
  if (!file) return FILE_NOT_FOUND;
  long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  uint8_t *image = size > 0 ? malloc((size_t)size) : NULL;
  rewind(file);
  bool good = image && fread(image, 1, (size_t)size, file) == (size_t)size;
  fclose(file);
  int error = good ? load_module(handle, image, (size_t)size) : INVALID_IMAGE;
  free(image);
  return error;
}
CALL(hipModuleLoad, (void **handle, const char *path), load_file(handle, path))
CALL(hipLibraryLoadFromFile, (void **handle, const char *path, int *options, void **values, unsigned count,
                              int *library_options, void **library_values, unsigned library_count),
     load_file(handle, path))
ACT(hipModuleUnload, (void *handle), is_module(handle), INVALID_HANDLE, drop_module(handle))
ACT(hipLibraryUnload, (void *handle), is_module(handle), INVALID_HANDLE, drop_module(handle))
static int function_of(void **function, void *handle, const char *name) {
  if (!function || !name || !*name) return INVALID_VALUE;
  if (!is_module(handle)) return INVALID_HANDLE;
  *function = find_kernel(((Module *)handle)->object, name);
  return *function ? SUCCESS : NOT_FOUND;
}
static int count_functions(unsigned *count, void *handle) {
  if (!count || !is_module(handle)) return count ? INVALID_HANDLE : INVALID_VALUE;
  *count = kernel_count(((Module *)handle)->object);
  return SUCCESS;
}
CALL(hipModuleGetFunction, (void **function, void *handle, const char *name), function_of(function, handle, name))
CALL(hipLibraryGetKernel, (void **function, void *handle, const char *name), function_of(function, handle, name))
CALL(hipModuleGetFunctionCount, (unsigned *count, void *handle), count_functions(count, handle))
CALL(hipLibraryGetKernelCount, (unsigned *count, void *handle), count_functions(count, handle))
ACT(hipKernelGetName, (const char **name, const Kernel *kernel),
    name && is_kernel(kernel), name ? INVALID_HANDLE : INVALID_VALUE, *name = kernel->name)
EXPORT int hipModuleGetGlobal(void **address, size_t *size, void *handle, const char *name) {
  ENTER(hipModuleGetGlobal);
  if (!name) return end(INVALID_VALUE);
  if (!is_module(handle)) return end(INVALID_HANDLE);
  uint64_t bytes = 0, found = find_variable(((Module *)handle)->object, name, &bytes);
  if (!found) return end(NOT_FOUND);
  if (address) *address = (void *)(uintptr_t)found;
  if (size) *size = bytes;
  return SUCCESS;
}
EXPORT int hipGetFuncBySymbol(void **function, const void *symbol) {
  ENTER(hipGetFuncBySymbol);
  Kernel *kernel;
  int error = kernel_of_host(symbol, &kernel);
  *function = kernel;
  return end(error);
}
EXPORT const char *hipKernelNameRef(const void *function) {
  return is_kernel(function) ? ((const Kernel *)function)->name : NULL;
}
EXPORT const char *hipKernelNameRefByPtr(const void *host, void *stream) {
  Kernel *kernel;
  return kernel_of_host(host, &kernel) == SUCCESS ? kernel->name : NULL;
}

EXPORT int hipGetSymbolAddress(void **address, const void *symbol) {
  ENTER(hipGetSymbolAddress);
  uint64_t at, size;
  int error = variable_of_host(symbol, &at, &size);
  if (!error) *address = (void *)(uintptr_t)at;
  return end(error);
}
EXPORT int hipGetSymbolSize(size_t *size, const void *symbol) {
  ENTER(hipGetSymbolSize);
  uint64_t at, bytes = 0;
  int error = variable_of_host(symbol, &at, &bytes);
  if (!error) *size = bytes;
  return end(error);
}
int part_of_symbol(const void *symbol, size_t size, size_t offset, uint8_t **address) {
  uint64_t at, bytes = 0;
  int error = variable_of_host(symbol, &at, &bytes);
  if (!error && (offset > bytes || size > bytes - offset)) error = INVALID_VALUE;
  if (!error) *address = (uint8_t *)(uintptr_t)at + offset;
  return error;
}
#define SYMBOL_CALL(name, parameters, copy)                          \
  EXPORT int name parameters {                                       \
    ENTER(name);                                                     \
    uint8_t *address;                                                \
    int error = part_of_symbol(symbol, size, offset, &address);      \
    return end(error ? error : (copy));                              \
  }
#define SYMBOL_CALLS(name, target, source, copied_now, copied_later)                                        \
  SYMBOL_CALL(name, (target, source, size_t size, size_t offset, int kind), copied_now)                    \
  SYMBOL_CALL(name##_spt, (target, source, size_t size, size_t offset, int kind), copied_now)              \
  SYMBOL_CALL(name##Async, (target, source, size_t size, size_t offset, int kind, void *stream), copied_later) \
  SYMBOL_CALL(name##Async_spt, (target, source, size_t size, size_t offset, int kind, void *stream),       \
              (stream = per_thread(stream), copied_later))
SYMBOL_CALLS(hipMemcpyToSymbol, const void *symbol, const void *source, copy_now(address, source, size, kind),
             copy_later(address, source, size, kind, stream))
SYMBOL_CALLS(hipMemcpyFromSymbol, void *target, const void *symbol, copy_now(target, address, size, kind),
             copy_later(target, address, size, kind, stream))
