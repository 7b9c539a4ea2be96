/* Loads code objects, whose paths are read from standard input, and launches their kernels: `path<TAB>kernel,kernel,…`.
 * A line with the last error answers each. Linked with the emulator's sources and the sanitizers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 16, POINTERS = 512, SUCCESS = 0 };

int hipInit(unsigned flags);
int hipMalloc(void **address, size_t size);
int hipMemset(void *address, int value, size_t size);
int hipModuleLoad(void **module, const char *path);
int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra);
int hipModuleUnload(void *module);
int hipDeviceSynchronize(void);
const char *hipGetErrorName(int error);
const char *ckwatch_emulator_problem(void);
uint32_t ckwatch_emulator_finding_count(void);
char *ckwatch_emulator_finding(uint32_t n);
void ckwatch_emulator_free(void *memory);
void ckwatch_emulator_clear(void);

static int launch(void *function, void *memory, unsigned block) {
  static void *arguments[POINTERS];
  size_t size = sizeof arguments;
  for (int n = 0; n < POINTERS; n++) arguments[n] = memory;
  void *extra[] = {(void *)1, arguments, (void *)2, &size, (void *)3};
  int error = hipModuleLaunchKernel(function, 2, 1, 1, block, 1, 1, 0, NULL, NULL, extra);
  return error ? error : hipDeviceSynchronize();
}

int main(void) {
  char line[8192];
  void *memory = NULL;
  if (hipInit(0) != SUCCESS || hipMalloc(&memory, BYTES) != SUCCESS) return 2;
  while (fgets(line, sizeof line, stdin)) {
    char *kernels = strchr(line, '\t');
    if (!kernels) return 2;
    *kernels++ = 0;
    void *module = NULL;
    int error = hipModuleLoad(&module, line);
    hipMemset(memory, 1, BYTES);
    for (char *name = strtok(kernels, ",\n"); !error && name; name = strtok(NULL, ",\n")) {
      void *function = NULL;
      if (hipModuleGetFunction(&function, module, name) != SUCCESS) continue;
      error = launch(function, memory, 64);
      if (!error) error = launch(function, memory, 200);
    }
    const char *problem = ckwatch_emulator_problem();
    printf("%s %s\n", hipGetErrorName(error), problem ? problem : "");
    fflush(stdout);
    for (uint32_t n = 0; n < ckwatch_emulator_finding_count(); n++) ckwatch_emulator_free(ckwatch_emulator_finding(n));
    ckwatch_emulator_clear();
    if (module) hipModuleUnload(module);
  }
  return 0;
}
