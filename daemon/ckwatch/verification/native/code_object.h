/* Code objects in memory: fat binaries, ELF segments, relocations, kernels and variables. */
#ifndef CODE_OBJECT_H
#define CODE_OBJECT_H

#include "machine.h"

/* What stands in the kernel's arguments; the hidden ones are filled in by dispatch.c. */
typedef enum {
  BY_VALUE, /* or a pointer: whatever the caller gives */
  HIDDEN_NONE,
  HIDDEN_BLOCK_COUNT_X,
  HIDDEN_BLOCK_COUNT_Y,
  HIDDEN_BLOCK_COUNT_Z,
  HIDDEN_GROUP_SIZE_X,
  HIDDEN_GROUP_SIZE_Y,
  HIDDEN_GROUP_SIZE_Z,
  HIDDEN_REMAINDER_X,
  HIDDEN_REMAINDER_Y,
  HIDDEN_REMAINDER_Z,
  HIDDEN_GLOBAL_OFFSET_X,
  HIDDEN_GLOBAL_OFFSET_Y,
  HIDDEN_GLOBAL_OFFSET_Z,
  HIDDEN_GRID_DIMS,
  HIDDEN_PRIVATE_BASE,
  HIDDEN_SHARED_BASE,
  HIDDEN_QUEUE_PTR,
  HIDDEN_DYNAMIC_LDS_SIZE,
  HIDDEN_GRID_SYNC,
  HIDDEN_HOSTCALL_BUFFER,
  HIDDEN_HEAP_V1,
  HIDDEN_PRINTF_BUFFER,
  DYNAMIC_SHARED_POINTER,
} ArgumentKind;

typedef struct KernelArgument {
  uint32_t offset, size;
  ArgumentKind kind;
} KernelArgument;

/* Why a code object cannot be used; the values are those of hipError_t. */
typedef enum {
  LOADED = 0,
  NO_MEMORY = 2,
  DAMAGED = 200,           /* hipErrorInvalidImage */
  NOT_FOR_THIS_ARCH = 209, /* hipErrorNoBinaryForGpu */
  SYMBOL_MISSING = 302,    /* hipErrorSharedObjectSymbolNotFound */
  CANNOT_DECODE = 303,     /* hipErrorSharedObjectInitFailed */
} LoadError;

bool arch_named(const char *name, Arch *arch); /* with or without target features */
const char *name_device(const char *name);    /* the device is this processor, of an arch that is known */

/* Loads an image: a fat binary (compressed or not) or an ELF file; `size` is SIZE_MAX where nobody knows it. On failure
 * *problem is a message to be freed. */
LoadError load_code_object(const void *image, size_t size, Arch arch, CodeObject **object, char **problem);
void free_code_object(CodeObject *object);

/* NULL when there is no such kernel. */
Kernel *find_kernel(CodeObject *object, const char *name);
uint32_t kernel_count(const CodeObject *object);
/* Address of a variable in loaded memory, 0 if there is none; its bytes in *size. */
uint64_t find_variable(const CodeObject *object, const char *name, uint64_t *size);

/* The decoded instructions; disassembled when they are first asked for. NULL and a message in *problem on failure. */
const Code *code_of(CodeObject *object, char **problem);

/* The format with this hash, of a printf whose output is kept until the kernel has ended; NULL where there is none. */
const char *printf_format(const CodeObject *object, uint64_t hash);

/* The number of a copy of the object's file in the folder CKWATCH_EMULATOR_OBJECTS, made when it is first asked for; 0 where
 * there is none. Source lines are read from it. */
uint32_t saved_copy(CodeObject *object);

/* Memory with at least 64 KiB of unmapped addresses on either side; page-aligned, all zero. NULL when there is none. */
void *map_guarded(size_t size);
void unmap_guarded(void *memory, size_t size);

#endif
