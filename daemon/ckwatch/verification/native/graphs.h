/* Operations that a stream does, and graphs of them: made node by node, or captured from streams. */
#ifndef GRAPHS_H
#define GRAPHS_H

#include "hip.h"

typedef struct { /* rows of bytes, and layers of rows */
  uint8_t *address;
  size_t pitch, slice;
} Side;
typedef struct {
  Side target, source;
  size_t width, height, depth; /* bytes, rows, layers */
  int kind;
} Copy;
typedef struct {
  Side target;
  uint32_t value;
  int element;                 /* bytes: 1, 2 or 4 */
  size_t width, height, depth; /* elements, rows, layers */
} Fill;

typedef enum { /* hipGraphNodeType */
  KERNEL_NODE,
  COPY_NODE,
  FILL_NODE,
  HOST_NODE,
  GRAPH_NODE,
  EMPTY_NODE,
  WAIT_NODE,
  RECORD_NODE,
  ALLOCATION_NODE = 10,
  FREE_NODE,
  VALUES_NODE = 14,
} NodeType;

typedef struct {
  NodeType type;
  union {
    struct {
      KernelNode node; /* its parameters point into `arguments` */
      Kernel *code;
      uint8_t *arguments;
      bool is_cooperative;
    } kernel;
    struct {
      Copy block;
      Copy3D node;
      DriverCopy3D driver; /* where it was made of one */
    } copy;
    struct {
      Fill block;
      FillNode node;
    } fill;
    HostNode host;
    Graph *graph;
    Event *event;
    AllocationNode allocation;
    void *freed;
    ValuesNode values;
  };
} Operation;

/* Does it on a stream, or makes a node of it where that is captured. */
int submit(void *stream, const Operation *operation);
int enqueue(Stream *stream, const Operation *operation);
int kernel_operation(Operation *operation, const KernelNode *node, Kernel *code, bool is_cooperative);
void free_operation(Operation *operation);

bool is_capturing(Stream *stream);
int refuse_in_capture(void); /* hipErrorStreamCaptureUnsupported for calls that a capture of this thread forbids, or 0 */
int refuse_on_capturing(Stream *stream); /* the same for calls that wait for this very stream; ends its capture */
bool is_captured_event(const Event *event);
bool record_in_capture(Stream *stream, Event *event); /* false when there is none */
int wait_in_capture(Stream *stream, Event *event, bool *is_captured);

/* memory.c */
int check_copy(const Copy *copy);
int copy_block(const Copy *copy, void *stream, bool wait);
int check_fill(const Fill *fill);
/* arrays.c */
int block_of(const Copy3D *copy, Copy *block);
int block_of_driver(const DriverCopy3D *copy, Copy *block);
/* hip.c */
int check_launch(const Kernel *kernel, Dim3 grid, Dim3 block, size_t shared, bool is_cooperative);
int fill_arguments(const Kernel *kernel, uint8_t *kernarg, void **parameters, void **extra);
int launch_operation(Stream *stream, const Operation *operation);
/* modules.c */
int part_of_symbol(const void *symbol, size_t size, size_t offset, uint8_t **address);

#endif
