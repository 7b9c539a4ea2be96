/* Graphs of operations.
 *
 * A graph that is launched runs in one stream, in an order that keeps its dependencies: there is nothing to gain from
 * branches that run side by side. Handles are addresses that are looked up in lists. */
#include "nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t graphs_lock = PTHREAD_MUTEX_INITIALIZER;
static Graph *graphs;
static UserObject *user_objects;
static __thread UserObject *released; /* to be destroyed when the lock is free */

void *grown(void *list, size_t count, size_t size) {
  void *memory = realloc(list, (count ? count : 1) * size);
  if (!memory) abort();
  return memory;
}
void *copied(const void *list, size_t count, size_t size) {
  void *memory = grown(NULL, count, size);
  return count ? memcpy(memory, list, count * size) : memory;
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

int kernel_operation(Operation *operation, const KernelNode *node, Kernel *code, bool is_cooperative) {
  *operation = (Operation){.type = KERNEL_NODE, .kernel = {.node = *node, .code = code, .is_cooperative = is_cooperative}};
  operation->kernel.arguments = calloc(1, code->kernarg_bytes + 16u);
  if (!operation->kernel.arguments) abort();
  int error = fill_arguments(code, operation->kernel.arguments, node->parameters, node->extra);
  if (error) {
    free(operation->kernel.arguments);
    return error;
  }
  void **parameters = grown(NULL, code->argument_count, sizeof *parameters);
  size_t given = 0;
  for (uint32_t n = 0; n < code->argument_count; n++)
    if (code->arguments[n].kind == BY_VALUE || code->arguments[n].kind == DYNAMIC_SHARED_POINTER)
      parameters[given++] = operation->kernel.arguments + code->arguments[n].offset;
  operation->kernel.node.parameters = parameters;
  operation->kernel.node.extra = NULL;
  return SUCCESS;
}

Operation copy_of(const Operation *from) {
  Operation copy = *from;
  if (from->type == KERNEL_NODE) {
    KernelNode node = from->kernel.node;
    if (kernel_operation(&copy, &node, from->kernel.code, from->kernel.is_cooperative)) abort();
  } else if (from->type == GRAPH_NODE) {
    copy.graph = clone_of(from->graph, from->graph->is_executable, true);
  } else if (from->type == VALUES_NODE) {
    copy.values.operations = copied(from->values.operations, from->values.count, sizeof *copy.values.operations);
  }
  return copy;
}

void free_operation(Operation *operation) {
  if (operation->type == KERNEL_NODE) {
    free(operation->kernel.arguments);
    free(operation->kernel.node.parameters);
  } else if (operation->type == GRAPH_NODE) {
    destroy_graph(operation->graph);
  } else if (operation->type == VALUES_NODE) {
    free(operation->values.operations);
  }
}

static int launch_graph(Stream *stream, const Graph *graph);

static int put_values(Stream *stream, const ValuesNode *values) {
  enum { WAIT_32 = 1, WRITE_32, FLUSH, WAIT_64, WRITE_64, BARRIER };
  for (unsigned n = 0; n < values->count; n++) {
    const ValueOperation *one = &values->operations[n];
    int width = one->operation == WAIT_64 || one->operation == WRITE_64 ? 8 : 4;
    if (one->operation == WAIT_32 || one->operation == WAIT_64)
      put_wait_value(stream, one->address, one->value, one->mask, one->flags, width);
    else if (one->operation == WRITE_32 || one->operation == WRITE_64)
      put_write_value(stream, one->address, one->value, width);
  }
  return SUCCESS;
}

static int put_block(Stream *stream, const Copy *copy) {
  int error = check_copy(copy);
  if (error || !copy->width || !copy->height) return error;
  for (size_t z = 0; z < copy->depth; z++) {
    uint8_t *to = copy->target.address + z * copy->target.slice;
    const uint8_t *from = copy->source.address + z * copy->source.slice;
    if (copy->height == 1) put_copy(stream, to, from, copy->width);
    else put_copy_rows(stream, to, copy->target.pitch, from, copy->source.pitch, copy->width, copy->height);
  }
  return SUCCESS;
}

static int put_fill_block(Stream *stream, const Fill *fill) {
  int error = check_fill(fill);
  if (error || !fill->width) return error;
  for (size_t z = 0; z < fill->depth; z++)
    for (size_t y = 0; y < fill->height; y++)
      put_fill(stream, fill->target.address + z * fill->target.slice + y * fill->target.pitch, fill->width, fill->value,
               fill->element);
  return SUCCESS;
}

static void undefine(void *address) {
  Allocation found = allocation_of(address, 1);
  if (found.address && is_checked()) mark_undefined((uint64_t)(uintptr_t)found.address, found.size, true);
}

int enqueue(Stream *stream, const Operation *operation) {
  switch (operation->type) {
    case KERNEL_NODE: return launch_operation(stream, operation);
    case COPY_NODE: return put_block(stream, &operation->copy.block);
    case FILL_NODE: return put_fill_block(stream, &operation->fill.block);
    case HOST_NODE: put_call(stream, operation->host.function, operation->host.data); return SUCCESS;
    case GRAPH_NODE: return launch_graph(stream, operation->graph);
    case WAIT_NODE: put_wait_event(stream, operation->event); return SUCCESS;
    case RECORD_NODE: put_record(stream, operation->event); return SUCCESS;
    case ALLOCATION_NODE: put_call(stream, undefine, operation->allocation.address); return SUCCESS;
    case FREE_NODE: put_call(stream, undefine, operation->freed); return SUCCESS;
    case VALUES_NODE: return put_values(stream, &operation->values);
    case EMPTY_NODE: break;
  }
  return SUCCESS;
}

/* ---- Nodes and graphs, under the lock ---------------------------------------------------------------------------- */

static bool is_listed(const Graph *graph) {
  const Graph *one = graphs;
  while (one && one != graph) one = one->next;
  return one;
}
bool is_graph(const Graph *graph) { return is_listed(graph) && !graph->is_executable; }
static bool is_executable(const Graph *graph) { return is_listed(graph) && graph->is_executable && !graph->is_child; }
static bool is_node(const Node *node) {
  for (const Graph *graph = graphs; node && graph; graph = graph->next)
    for (size_t n = 0; n < graph->count && !graph->is_executable; n++)
      if (graph->nodes[n] == node) return true;
  return false;
}
bool is_of(const Graph *graph, const Node *node) {
  for (size_t n = 0; n < graph->count; n++)
    if (graph->nodes[n] == node) return true;
  return false;
}
bool depends_on(const Node *node, const Node *other) {
  for (size_t n = 0; n < node->after_count; n++)
    if (node->after[n] == other) return true;
  return false;
}

Graph *new_graph(void) {
  Graph *graph = calloc(1, sizeof *graph);
  if (!graph) abort();
  graph->next = graphs;
  graphs = graph;
  return graph;
}

int add_node(Node **made, Graph *graph, Node *const *after, size_t count, Operation operation) {
  for (size_t n = 0; n < count; n++) {
    bool is_twice = false;
    for (size_t other = 0; other < n; other++) is_twice |= after[n] == after[other];
    if (is_twice || !is_of(graph, after[n])) {
      free_operation(&operation);
      return INVALID_VALUE;
    }
  }
  Node *node = calloc(1, sizeof *node);
  if (!node) abort();
  *node = (Node){.operation = operation, .graph = graph, .after = copied(after, count, sizeof *after), .after_count = count};
  graph->nodes = grown(graph->nodes, graph->count + 1, sizeof *graph->nodes);
  graph->nodes[graph->count++] = node;
  if (made) *made = node;
  return SUCCESS;
}

static void number_nodes(const Graph *graph) {
  for (size_t n = 0; n < graph->count; n++) graph->nodes[n]->position = n;
}

Graph *clone_of(const Graph *graph, bool is_executable, bool is_child) {
  Graph *clone = new_graph();
  clone->is_executable = is_executable;
  clone->is_child = is_child;
  number_nodes(graph);
  for (size_t n = 0; n < graph->count; n++) {
    add_node(NULL, clone, NULL, 0, copy_of(&graph->nodes[n]->operation));
    clone->nodes[n]->original = graph->nodes[n];
    clone->nodes[n]->is_disabled = graph->nodes[n]->is_disabled;
  }
  for (size_t n = 0; n < graph->count; n++) {
    const Node *from = graph->nodes[n];
    Node *to = clone->nodes[n];
    to->after_count = from->after_count;
    to->after = grown(to->after, from->after_count, sizeof *to->after);
    for (size_t m = 0; m < from->after_count; m++) to->after[m] = clone->nodes[from->after[m]->position];
  }
  return clone;
}

static void release_object(UserObject *object, unsigned count) {
  object->references -= count < object->references ? count : object->references;
  if (object->references) return;
  UserObject **link = &user_objects;
  while (*link != object) link = &(*link)->next;
  *link = object->next;
  object->next = released;
  released = object;
}

static void free_node(Node *node) {
  free_operation(&node->operation);
  free(node->after);
  free(node);
}

void destroy_graph(Graph *graph) {
  Graph **link = &graphs;
  while (*link != graph) link = &(*link)->next;
  *link = graph->next;
  for (size_t n = 0; n < graph->count; n++) free_node(graph->nodes[n]);
  for (size_t n = 0; n < graph->retained_count; n++) release_object(graph->retained[n].object, graph->retained[n].count);
  free(graph->retained);
  free(graph->nodes);
  free(graph);
}

/* An order that keeps dependencies, for nodes of the same rank that in which they were added; false for a circle. */
static bool order_of(const Graph *graph, Node **ordered) {
  number_nodes(graph);
  size_t done = 0;
  bool *is_done = calloc(graph->count + 1, 1);
  if (!is_done) abort();
  for (bool moved = true; done < graph->count && moved;) {
    moved = false;
    for (size_t n = 0; n < graph->count; n++) {
      Node *node = graph->nodes[n];
      bool is_ready = !is_done[n];
      for (size_t m = 0; m < node->after_count; m++) is_ready &= is_done[node->after[m]->position];
      if (!is_ready) continue;
      ordered[done++] = node;
      is_done[n] = moved = true;
    }
  }
  free(is_done);
  return done == graph->count;
}

static int launch_graph(Stream *stream, const Graph *graph) {
  Node **ordered = grown(NULL, graph->count, sizeof *ordered);
  int error = order_of(graph, ordered) ? SUCCESS : INVALID_VALUE;
  for (size_t n = 0; n < graph->count && !error; n++)
    if (!ordered[n]->is_disabled) error = enqueue(stream, &ordered[n]->operation);
  free(ordered);
  return error;
}

static int instantiate(Graph **made, Graph *graph, unsigned long long flags) {
  if (!made || !is_graph(graph)) return INVALID_VALUE;
  Node **ordered = grown(NULL, graph->count, sizeof *ordered);
  bool is_ordered = order_of(graph, ordered);
  free(ordered);
  if (!is_ordered) return INVALID_VALUE;
  *made = clone_of(graph, true, false);
  (*made)->flags = flags;
  return SUCCESS;
}

/* The node of a clone or an executable graph that was made of this one. */
static Node *twin_of(const Graph *graph, const Node *node) {
  for (size_t n = 0; n < graph->count; n++)
    if (graph->nodes[n]->original == node) return graph->nodes[n];
  return NULL;
}

static int change_node(Node *node, Operation operation) {
  free_operation(&node->operation);
  node->operation = operation;
  return SUCCESS;
}

/* ---- Operations of parameters ------------------------------------------------------------------------------------ */

static int of_kernel(Operation *made, const KernelNode *given) {
  if (!given || !given->function) return INVALID_VALUE;
  Kernel *code = NULL;
  if (kernel_of_host(given->function, &code) && is_kernel(given->function)) code = given->function;
  if (!code) return INVALID_DEVICE_FUNCTION;
  int error = check_launch(code, given->grid, given->block, given->shared, false);
  return error ? error : kernel_operation(made, given, code, false);
}
static int of_copy(Operation *made, const Copy3D *given) {
  if (!given) return INVALID_VALUE;
  *made = (Operation){.type = COPY_NODE, .copy = {.node = *given}};
  int error = block_of(given, &made->copy.block);
  return error ? error : check_copy(&made->copy.block);
}
static int of_driver_copy(Operation *made, const DriverCopy3D *given) {
  if (!given) return INVALID_VALUE;
  *made = (Operation){.type = COPY_NODE, .copy = {.driver = *given}};
  int error = block_of_driver(given, &made->copy.block);
  return error ? error : check_copy(&made->copy.block);
}
static int of_bytes(Operation *made, void *target, const void *source, size_t size, int kind) {
  if (!target || !source) return INVALID_VALUE;
  Copy3D node = {.source = {(void *)source, size, size, 1}, .target = {target, size, size, 1}, .extent = {size, 1, 1}, .kind = kind};
  return of_copy(made, &node);
}
static int of_symbol(Operation *made, void *address, const void *symbol, size_t size, size_t offset, int kind, bool is_target) {
  uint8_t *part;
  int error = symbol ? part_of_symbol(symbol, size, offset, &part) : INVALID_VALUE;
  if (error) return error;
  return is_target ? of_bytes(made, part, address, size, kind) : of_bytes(made, address, part, size, kind);
}
static int of_fill(Operation *made, const FillNode *given) {
  if (!given || !given->target || !given->width || !given->height) return INVALID_VALUE;
  if (given->element != 1 && given->element != 2 && given->element != 4) return INVALID_VALUE;
  Fill fill = {{given->target, given->pitch, 0}, given->value, (int)given->element, given->width, given->height, 1};
  *made = (Operation){.type = FILL_NODE, .fill = {fill, *given}};
  return check_fill(&fill);
}
static int of_host(Operation *made, const HostNode *given) {
  if (!given || !given->function) return INVALID_VALUE;
  *made = (Operation){.type = HOST_NODE, .host = *given};
  return SUCCESS;
}
static int of_child(Operation *made, const Graph *child) {
  if (!is_graph(child)) return INVALID_VALUE;
  *made = (Operation){.type = GRAPH_NODE, .graph = clone_of(child, false, true)};
  return SUCCESS;
}
static int of_event(Operation *made, void *event, NodeType type) {
  if (!event || !is_event(event)) return INVALID_VALUE;
  *made = (Operation){.type = type, .event = event};
  return SUCCESS;
}
static int of_allocation(Operation *made, AllocationNode *given) {
  if (!given || !given->size) return INVALID_VALUE;
  int error = allocate(&given->address, given->size, DEVICE_MEMORY, 0, false);
  *made = (Operation){.type = ALLOCATION_NODE, .allocation = *given};
  return error;
}
static int of_free(Operation *made, void *address) {
  if (!address || allocation_of(address, 1).address != address) return INVALID_VALUE;
  *made = (Operation){.type = FREE_NODE, .freed = address};
  return SUCCESS;
}
static int of_values(Operation *made, const ValuesNode *given) {
  if (!given || !given->operations || !given->count || given->count > 256) return INVALID_VALUE;
  *made = (Operation){.type = VALUES_NODE, .values = *given};
  made->values.operations = copied(given->operations, given->count, sizeof *given->operations);
  for (unsigned n = 0; n < given->count; n++) made->values.operations[n].mask = UINT64_MAX;
  return SUCCESS;
}
static int of_parameters(Operation *made, NodeParameters *given) {
  if (!given) return INVALID_VALUE;
  switch (given->type) {
    case KERNEL_NODE: return of_kernel(made, &given->kernel);
    case COPY_NODE: return of_copy(made, &given->copy.copy);
    case FILL_NODE: return of_fill(made, &given->fill);
    case HOST_NODE: return of_host(made, &given->host);
    case GRAPH_NODE: return of_child(made, given->graph);
    case EMPTY_NODE: *made = (Operation){.type = EMPTY_NODE}; return SUCCESS;
    case WAIT_NODE: case RECORD_NODE: return of_event(made, given->event, (NodeType)given->type);
    case ALLOCATION_NODE: return of_allocation(made, &given->allocation);
    case FREE_NODE: return of_free(made, given->freed);
    default: return NOT_SUPPORTED;
  }
}

/* ---- Adding, reading and changing nodes -------------------------------------------------------------------------- */

void destroy_released(void) {
  while (released) {
    UserObject *object = released;
    released = object->next;
    object->destroy(object->data);
    free(object);
  }
}
#define ADD(name, given, operation_of) \
  LOCKED(name, (Node **made, Graph *graph, Node *const *after, size_t count, given), \
         add(made, graph, after, count, &operation, can_add(made, graph, after, count) ? operation_of : INVALID_VALUE))

static bool can_add(Node **made, const Graph *graph, Node *const *after, size_t count) {
  return made && is_graph(graph) && (after || !count);
}
static int add(Node **made, Graph *graph, Node *const *after, size_t count, Operation *operation, int error) {
  return error ? error : add_node(made, graph, after, count, *operation);
}

#define GIVEN(...) __VA_ARGS__
ADD(hipGraphAddKernelNode, const KernelNode *given, of_kernel(&operation, given))
ADD(hipGraphAddMemcpyNode, const Copy3D *given, of_copy(&operation, given))
ADD(hipGraphAddMemcpyNode1D, GIVEN(void *target, const void *source, size_t size, int kind),
    of_bytes(&operation, target, source, size, kind))
ADD(hipGraphAddMemcpyNodeFromSymbol, GIVEN(void *target, const void *symbol, size_t size, size_t offset, int kind),
    of_symbol(&operation, target, symbol, size, offset, kind, false))
ADD(hipGraphAddMemcpyNodeToSymbol, GIVEN(const void *symbol, const void *source, size_t size, size_t offset, int kind),
    of_symbol(&operation, (void *)source, symbol, size, offset, kind, true))
ADD(hipGraphAddMemsetNode, const FillNode *given, of_fill(&operation, given))
ADD(hipGraphAddHostNode, const HostNode *given, of_host(&operation, given))
ADD(hipGraphAddChildGraphNode, const Graph *child, of_child(&operation, child))
ADD(hipGraphAddEventRecordNode, void *event, of_event(&operation, event, RECORD_NODE))
ADD(hipGraphAddEventWaitNode, void *event, of_event(&operation, event, WAIT_NODE))
ADD(hipGraphAddMemAllocNode, AllocationNode *given, of_allocation(&operation, given))
ADD(hipGraphAddMemFreeNode, void *address, of_free(&operation, address))
ADD(hipDrvGraphAddMemFreeNode, void *address, of_free(&operation, address))
ADD(hipDrvGraphAddMemcpyNode, GIVEN(const DriverCopy3D *given, void *context), of_driver_copy(&operation, given))
ADD(hipDrvGraphAddMemsetNode, GIVEN(const FillNode *given, void *context), of_fill(&operation, given))
ADD(hipGraphAddBatchMemOpNode, const ValuesNode *given, of_values(&operation, given))
ADD(hipGraphAddNode, NodeParameters *given, of_parameters(&operation, given))
LOCKED(hipGraphAddEmptyNode, (Node **made, Graph *graph, Node *const *after, size_t count),
       (operation.type = EMPTY_NODE,
        add(made, graph, after, count, &operation, can_add(made, graph, after, count) ? SUCCESS : INVALID_VALUE)))

/* What a node was made of. */
static bool is_type(const Node *node, NodeType type) { return is_node(node) && node->operation.type == type; }
#define READ(name, type, result, member)                                      \
  LOCKED(name, (const Node *node, result *answer),                            \
         answer && is_type(node, type) ? (*answer = node->operation.member, SUCCESS) : INVALID_VALUE)
READ(hipGraphKernelNodeGetParams, KERNEL_NODE, KernelNode, kernel.node)
READ(hipGraphMemcpyNodeGetParams, COPY_NODE, Copy3D, copy.node)
READ(hipDrvGraphMemcpyNodeGetParams, COPY_NODE, DriverCopy3D, copy.driver)
READ(hipGraphMemsetNodeGetParams, FILL_NODE, FillNode, fill.node)
READ(hipGraphHostNodeGetParams, HOST_NODE, HostNode, host)
READ(hipGraphChildGraphNodeGetGraph, GRAPH_NODE, Graph *, graph)
READ(hipGraphEventRecordNodeGetEvent, RECORD_NODE, void *, event)
READ(hipGraphEventWaitNodeGetEvent, WAIT_NODE, void *, event)
READ(hipGraphMemAllocNodeGetParams, ALLOCATION_NODE, AllocationNode, allocation)
READ(hipGraphMemFreeNodeGetParams, FREE_NODE, void *, freed)
READ(hipGraphBatchMemOpNodeGetParams, VALUES_NODE, ValuesNode, values)
LOCKED(hipGraphNodeGetType, (const Node *node, int *type),
       type && is_node(node) ? (*type = (int)node->operation.type, SUCCESS) : INVALID_VALUE)

/* A node becomes another one of its type: in its graph, or in a graph that was instantiated from it. */
static int change(Node *node, Operation *operation, int error) {
  if (!error && node->operation.type != operation->type) {
    free_operation(operation);
    error = INVALID_VALUE;
  }
  return error ? error : change_node(node, *operation);
}
static int change_in(Graph *executable, const Node *node, Operation *operation, int error) {
  Node *twin = error ? NULL : twin_of(executable, node);
  if (!error && !twin) {
    free_operation(operation);
    error = INVALID_VALUE;
  }
  return error ? error : change(twin, operation, SUCCESS);
}
#define CHANGE(name, type, given, operation_of)    \
  LOCKED(name, (Node *node, given),                \
         is_type(node, type) ? change(node, &operation, operation_of) : INVALID_VALUE)
#define CHANGE_IN(name, type, given, operation_of)                    \
  LOCKED(name, (Graph *executable, const Node *node, given),          \
         is_executable(executable) && is_type(node, type)             \
             ? change_in(executable, node, &operation, operation_of)  \
             : INVALID_VALUE)
#define CHANGES(name, name_in, type, given, operation_of) \
  CHANGE(name, type, GIVEN(given), operation_of)          \
  CHANGE_IN(name_in, type, GIVEN(given), operation_of)
CHANGES(hipGraphKernelNodeSetParams, hipGraphExecKernelNodeSetParams, KERNEL_NODE, const KernelNode *given,
        of_kernel(&operation, given))
CHANGES(hipGraphMemcpyNodeSetParams, hipGraphExecMemcpyNodeSetParams, COPY_NODE, const Copy3D *given,
        of_copy(&operation, given))
CHANGES(hipGraphMemcpyNodeSetParams1D, hipGraphExecMemcpyNodeSetParams1D, COPY_NODE,
        GIVEN(void *target, const void *source, size_t size, int kind), of_bytes(&operation, target, source, size, kind))
CHANGES(hipGraphMemcpyNodeSetParamsFromSymbol, hipGraphExecMemcpyNodeSetParamsFromSymbol, COPY_NODE,
        GIVEN(void *target, const void *symbol, size_t size, size_t offset, int kind),
        of_symbol(&operation, target, symbol, size, offset, kind, false))
CHANGES(hipGraphMemcpyNodeSetParamsToSymbol, hipGraphExecMemcpyNodeSetParamsToSymbol, COPY_NODE,
        GIVEN(const void *symbol, const void *source, size_t size, size_t offset, int kind),
        of_symbol(&operation, (void *)source, symbol, size, offset, kind, true))
CHANGES(hipGraphMemsetNodeSetParams, hipGraphExecMemsetNodeSetParams, FILL_NODE, const FillNode *given,
        of_fill(&operation, given))
CHANGES(hipGraphHostNodeSetParams, hipGraphExecHostNodeSetParams, HOST_NODE, const HostNode *given,
        of_host(&operation, given))
CHANGES(hipGraphEventRecordNodeSetEvent, hipGraphExecEventRecordNodeSetEvent, RECORD_NODE, void *event,
        of_event(&operation, event, RECORD_NODE))
CHANGES(hipGraphEventWaitNodeSetEvent, hipGraphExecEventWaitNodeSetEvent, WAIT_NODE, void *event,
        of_event(&operation, event, WAIT_NODE))
CHANGES(hipGraphBatchMemOpNodeSetParams, hipGraphExecBatchMemOpNodeSetParams, VALUES_NODE, const ValuesNode *given,
        of_values(&operation, given))
CHANGE(hipDrvGraphMemcpyNodeSetParams, COPY_NODE, const DriverCopy3D *given, of_driver_copy(&operation, given))
CHANGE_IN(hipDrvGraphExecMemcpyNodeSetParams, COPY_NODE, GIVEN(const DriverCopy3D *given, void *context),
          of_driver_copy(&operation, given))
CHANGE_IN(hipDrvGraphExecMemsetNodeSetParams, FILL_NODE, GIVEN(const FillNode *given, void *context),
          of_fill(&operation, given))
CHANGE_IN(hipGraphExecChildGraphNodeSetParams, GRAPH_NODE, const Graph *child, of_child(&operation, child))
LOCKED(hipGraphNodeSetParams, (Node *node, NodeParameters *given),
       is_node(node) && given && given->type == (int)node->operation.type
           ? change(node, &operation, of_parameters(&operation, given))
           : INVALID_VALUE)
LOCKED(hipGraphExecNodeSetParams, (Graph *executable, const Node *node, NodeParameters *given),
       is_executable(executable) && is_node(node) && given && given->type == (int)node->operation.type
           ? change_in(executable, node, &operation, of_parameters(&operation, given))
           : INVALID_VALUE)

enum { COOPERATIVE = 2, PRIORITY = 8 }; /* hipLaunchAttributeID */
static int kernel_attribute(Node *node, int number, int *value, bool is_new) {
  if (!value || !is_type(node, KERNEL_NODE)) return INVALID_VALUE;
  bool *is_cooperative = &node->operation.kernel.is_cooperative;
  if (number == COOPERATIVE && is_new) *is_cooperative = *value;
  else if (!is_new) *value = number == COOPERATIVE && *is_cooperative;
  return SUCCESS;
}
LOCKED(hipGraphKernelNodeSetAttribute, (Node *node, int number, const int *value),
       kernel_attribute(node, number, (int *)value, true))
LOCKED(hipGraphKernelNodeGetAttribute, (Node *node, int number, int *value), kernel_attribute(node, number, value, false))
LOCKED(hipGraphKernelNodeCopyAttributes, (const Node *from, Node *to),
       is_type(from, KERNEL_NODE) && is_type(to, KERNEL_NODE)
           ? (to->operation.kernel.is_cooperative = from->operation.kernel.is_cooperative, SUCCESS)
           : INVALID_VALUE)

static int enable(const Graph *executable, const Node *node, bool is_enabled) {
  Node *twin = is_executable(executable) && is_node(node) ? twin_of(executable, node) : NULL;
  if (!twin || twin->operation.type > FILL_NODE) return INVALID_VALUE; /* kernels, copies and fills */
  twin->is_disabled = !is_enabled;
  return SUCCESS;
}
static int is_enabled(const Graph *executable, const Node *node, unsigned *answer) {
  const Node *twin = is_executable(executable) && is_node(node) ? twin_of(executable, node) : NULL;
  if (!twin || !answer || twin->operation.type > FILL_NODE) return INVALID_VALUE;
  *answer = !twin->is_disabled;
  return SUCCESS;
}
LOCKED(hipGraphNodeSetEnabled, (const Graph *executable, const Node *node, unsigned enabled),
       enable(executable, node, enabled))
LOCKED(hipGraphNodeGetEnabled, (const Graph *executable, const Node *node, unsigned *enabled),
       is_enabled(executable, node, enabled))

/* ---- The shape of graphs ----------------------------------------------------------------------------------------- */

/* Lists are written as far as there is room; without one, only their length. */
typedef struct {
  Node **nodes;
  size_t room, count;
} Answer;
static void tell(Answer *answer, Node *node) {
  if (answer->nodes && answer->count < answer->room) answer->nodes[answer->count] = node;
  answer->count++;
}
static int told(const Answer *answer, size_t *count) {
  for (size_t n = answer->count; answer->nodes && n < answer->room; n++) answer->nodes[n] = NULL;
  if (!answer->nodes || answer->count < answer->room) *count = answer->count;
  return SUCCESS;
}
static int nodes_of(const Graph *graph, Node **nodes, size_t *count, bool roots) {
  if (!is_graph(graph) || !count) return INVALID_VALUE;
  Answer answer = {nodes, *count, 0};
  for (size_t n = 0; n < graph->count; n++)
    if (!roots || !graph->nodes[n]->after_count) tell(&answer, graph->nodes[n]);
  return told(&answer, count);
}
static int neighbours_of(Node *node, Node **nodes, size_t *count, bool before) {
  if (!is_node(node) || !count) return INVALID_VALUE;
  Answer answer = {nodes, *count, 0};
  for (size_t n = 0; n < node->after_count && before; n++) tell(&answer, node->after[n]);
  for (size_t n = 0; n < node->graph->count && !before; n++)
    if (depends_on(node->graph->nodes[n], node)) tell(&answer, node->graph->nodes[n]);
  return told(&answer, count);
}
static int edges_of(const Graph *graph, Node **from, Node **to, size_t *count) {
  if (!is_graph(graph) || !count || !from != !to) return INVALID_VALUE;
  Answer begins = {from, *count, 0}, ends = {to, *count, 0};
  for (size_t n = 0; n < graph->count; n++)
    for (size_t m = 0; m < graph->nodes[n]->after_count; m++) {
      tell(&begins, graph->nodes[n]->after[m]);
      tell(&ends, graph->nodes[n]);
    }
  told(&begins, count);
  return told(&ends, count);
}
LOCKED(hipGraphGetNodes, (const Graph *graph, Node **nodes, size_t *count), nodes_of(graph, nodes, count, false))
LOCKED(hipGraphGetRootNodes, (const Graph *graph, Node **nodes, size_t *count), nodes_of(graph, nodes, count, true))
LOCKED(hipGraphGetEdges, (const Graph *graph, Node **from, Node **to, size_t *count), edges_of(graph, from, to, count))
LOCKED(hipGraphNodeGetDependencies, (Node *node, Node **nodes, size_t *count), neighbours_of(node, nodes, count, true))
LOCKED(hipGraphNodeGetDependentNodes, (Node *node, Node **nodes, size_t *count), neighbours_of(node, nodes, count, false))

static void forget_dependency(Node *node, const Node *on) {
  size_t kept = 0;
  for (size_t n = 0; n < node->after_count; n++)
    if (node->after[n] != on) node->after[kept++] = node->after[n];
  node->after_count = kept;
}
static int change_dependencies(Graph *graph, Node *const *from, Node *const *to, size_t count, bool added) {
  if (!is_graph(graph) || (count && (!from || !to))) return INVALID_VALUE;
  for (size_t n = 0; n < count; n++)
    if (!is_of(graph, from[n]) || !is_of(graph, to[n]) || from[n] == to[n] || depends_on(to[n], from[n]) == added)
      return INVALID_VALUE;
  for (size_t n = 0; n < count; n++) {
    if (added) {
      to[n]->after = grown(to[n]->after, to[n]->after_count + 1, sizeof *to[n]->after);
      to[n]->after[to[n]->after_count++] = from[n];
    } else {
      forget_dependency(to[n], from[n]);
    }
  }
  return SUCCESS;
}
LOCKED(hipGraphAddDependencies, (Graph *graph, Node *const *from, Node *const *to, size_t count),
       change_dependencies(graph, from, to, count, true))
LOCKED(hipGraphRemoveDependencies, (Graph *graph, Node *const *from, Node *const *to, size_t count),
       change_dependencies(graph, from, to, count, false))

static int destroy_node(Node *node) {
  if (!is_node(node)) return INVALID_VALUE;
  Graph *graph = node->graph;
  size_t kept = 0;
  for (size_t n = 0; n < graph->count; n++) {
    forget_dependency(graph->nodes[n], node);
    if (graph->nodes[n] != node) graph->nodes[kept++] = graph->nodes[n];
  }
  graph->count = kept;
  free_node(node);
  return SUCCESS;
}
LOCKED(hipGraphDestroyNode, (Node *node), destroy_node(node))
LOCKED(hipGraphCreate, (Graph **made, unsigned flags),
       made && !flags ? (*made = new_graph(), SUCCESS) : INVALID_VALUE)
LOCKED(hipGraphDestroy, (Graph *graph),
       is_graph(graph) && !graph->is_child ? (destroy_graph(graph), SUCCESS) : INVALID_VALUE)
LOCKED(hipGraphClone, (Graph **made, const Graph *graph),
       made && is_graph(graph) ? (*made = clone_of(graph, false, false), SUCCESS) : INVALID_VALUE)
LOCKED(hipGraphNodeFindInClone, (Node **found, const Node *node, const Graph *clone),
       found && is_node(node) && is_graph(clone) ? ((*found = twin_of(clone, node)) ? SUCCESS : INVALID_VALUE)
                                                 : INVALID_VALUE)

static const char *const type_names[] = {
    [KERNEL_NODE] = "KERNEL", [COPY_NODE] = "MEMCPY", [FILL_NODE] = "MEMSET", [HOST_NODE] = "HOST",
    [GRAPH_NODE] = "GRAPH", [EMPTY_NODE] = "EMPTY", [WAIT_NODE] = "EVENT_WAIT", [RECORD_NODE] = "EVENT_RECORD",
    [ALLOCATION_NODE] = "MEM_ALLOC", [FREE_NODE] = "MEM_FREE", [VALUES_NODE] = "MEM_OPS"};
static int print_graph(const Graph *graph, const char *path) {
  FILE *file = is_graph(graph) && path ? fopen(path, "w") : NULL;
  if (!file) return is_graph(graph) && path ? 304 : INVALID_VALUE; /* hipErrorOperatingSystem */
  number_nodes(graph);
  fputs("digraph dot {\n", file);
  for (size_t n = 0; n < graph->count; n++) {
    const Node *node = graph->nodes[n];
    bool is_kernel = node->operation.type == KERNEL_NODE;
    fprintf(file, "  node_%zu [label=\"%s\"];\n", n, is_kernel ? node->operation.kernel.code->name : type_names[node->operation.type]);
    for (size_t m = 0; m < node->after_count; m++) fprintf(file, "  node_%zu -> node_%zu;\n", node->after[m]->position, n);
  }
  fputs("}\n", file);
  return fclose(file) ? 304 : SUCCESS;
}
LOCKED(hipGraphDebugDotPrint, (const Graph *graph, const char *path, unsigned flags), print_graph(graph, path))

/* ---- Executable graphs ------------------------------------------------------------------------------------------- */

LOCKED(hipGraphInstantiate, (Graph **made, Graph *graph, Node **failed, char *text, size_t size),
       instantiate(made, graph, 0))
LOCKED(hipGraphInstantiateWithFlags, (Graph **made, Graph *graph, unsigned long long flags),
       flags > 15 ? INVALID_VALUE : instantiate(made, graph, flags))
LOCKED(hipGraphInstantiateWithParams, (Graph **made, Graph *graph, InstantiateParameters *parameters),
       parameters ? (parameters->failed = NULL,
                     parameters->result = instantiate(made, graph, parameters->flags) ? 1 : 0)
                  : INVALID_VALUE)
LOCKED(hipGraphExecDestroy, (Graph *executable),
       is_executable(executable) ? (destroy_graph(executable), SUCCESS) : INVALID_VALUE)
LOCKED(hipGraphExecGetFlags, (const Graph *executable, unsigned long long *flags),
       flags && is_executable(executable) ? (*flags = executable->flags, SUCCESS) : INVALID_VALUE)
LOCKED(hipGraphUpload, (const Graph *executable, void *stream),
       !is_executable(executable) ? INVALID_VALUE : stream_of(stream) ? SUCCESS : INVALID_HANDLE)

/* hipGraphExecUpdateResult */
enum { UPDATED, UPDATE_ERROR, TOPOLOGY_CHANGED, TYPE_CHANGED, FUNCTION_CHANGED, PARAMETERS_CHANGED };

static int update_of(const Graph *executable, const Graph *graph, Node **failed) {
  number_nodes(executable);
  number_nodes(graph);
  if (executable->count != graph->count) return TOPOLOGY_CHANGED;
  for (size_t n = 0; n < graph->count; n++) {
    const Node *old = executable->nodes[n], *new = graph->nodes[n];
    *failed = graph->nodes[n];
    if (old->operation.type != new->operation.type) return TYPE_CHANGED;
    if (old->after_count != new->after_count) return TOPOLOGY_CHANGED;
    for (size_t m = 0; m < old->after_count; m++)
      if (old->after[m]->position != new->after[m]->position) return TOPOLOGY_CHANGED;
  }
  *failed = NULL;
  return UPDATED;
}
static int update(Graph *executable, const Graph *graph, Node **failed, int *result) {
  if (!failed || !result || !is_executable(executable) || !is_graph(graph)) return INVALID_VALUE;
  *failed = NULL;
  *result = update_of(executable, graph, failed);
  for (size_t n = 0; n < graph->count && *result == UPDATED; n++) {
    change_node(executable->nodes[n], copy_of(&graph->nodes[n]->operation));
    executable->nodes[n]->original = graph->nodes[n];
  }
  return *result == UPDATED ? SUCCESS : GRAPH_UPDATE_FAILURE;
}
LOCKED(hipGraphExecUpdate, (Graph *executable, const Graph *graph, Node **failed, int *result),
       update(executable, graph, failed, result))

static int launch(const Graph *executable, void *handle) {
  Stream *stream = stream_of(handle);
  if (!is_executable(executable)) return INVALID_VALUE;
  if (!stream) return INVALID_HANDLE;
  if (!is_captured(stream)) return launch_graph(stream, executable);
  return capture_node(stream, (Operation){.type = GRAPH_NODE, .graph = clone_of(executable, false, true)});
}
LOCKED(hipGraphLaunch, (const Graph *executable, void *stream), launch(executable, stream))
LOCKED(hipGraphLaunch_spt, (const Graph *executable, void *stream), launch(executable, per_thread(stream)))

/* ---- Objects that live as long as a graph ------------------------------------------------------------------------ */

static bool is_object(const UserObject *object) {
  const UserObject *one = user_objects;
  while (one && one != object) one = one->next;
  return one;
}
static int make_object(UserObject **made, void *data, void (*destroy)(void *), unsigned references) {
  UserObject *object = made && destroy && references ? malloc(sizeof *object) : NULL;
  if (!object) return INVALID_VALUE;
  *object = (UserObject){data, destroy, references, user_objects};
  *made = user_objects = object;
  return SUCCESS;
}
static int retain_for(Graph *graph, UserObject *object, unsigned count, unsigned flags) {
  enum { MOVE = 1 };
  if (!is_graph(graph) || !is_object(object) || !count || flags > MOVE) return INVALID_VALUE;
  if (flags != MOVE) object->references += count;
  graph->retained = grown(graph->retained, graph->retained_count + 1, sizeof *graph->retained);
  graph->retained[graph->retained_count++] = (Retained){object, count};
  return SUCCESS;
}
static int release_from(Graph *graph, UserObject *object, unsigned count) {
  if (!is_graph(graph) || !is_object(object) || !count) return INVALID_VALUE;
  for (size_t n = 0; n < graph->retained_count; n++)
    if (graph->retained[n].object == object && graph->retained[n].count >= count) {
      graph->retained[n].count -= count;
      if (!graph->retained[n].count) graph->retained[n] = graph->retained[--graph->retained_count];
      release_object(object, count);
      return SUCCESS;
    }
  return INVALID_VALUE;
}
LOCKED(hipUserObjectCreate, (UserObject **made, void *data, void (*destroy)(void *), unsigned references, unsigned flags),
       make_object(made, data, destroy, references))
LOCKED(hipUserObjectRetain, (UserObject *object, unsigned count),
       is_object(object) && count ? (object->references += count, SUCCESS) : INVALID_VALUE)
LOCKED(hipUserObjectRelease, (UserObject *object, unsigned count),
       is_object(object) && count ? (release_object(object, count), SUCCESS) : INVALID_VALUE)
LOCKED(hipGraphRetainUserObject, (Graph *graph, UserObject *object, unsigned count, unsigned flags),
       retain_for(graph, object, count, flags))
LOCKED(hipGraphReleaseUserObject, (Graph *graph, UserObject *object, unsigned count), release_from(graph, object, count))

/* ---- Memory of graphs -------------------------------------------------------------------------------------------- */

/* It is there from when its node is made, and counts as memory of the device. */
ACT(hipDeviceGetGraphMemAttribute, (int number, int attribute, uint64_t *value),
    is_device(number) && value && attribute >= 0 && attribute < 4, is_device(number) ? INVALID_VALUE : INVALID_DEVICE, *value = 0)
CALL(hipDeviceSetGraphMemAttribute, (int number, int attribute, const uint64_t *value),
     !is_device(number) ? INVALID_DEVICE : value && (attribute == 1 || attribute == 3) ? SUCCESS : INVALID_VALUE)
CALL(hipDeviceGraphMemTrim, (int number), is_device(number) ? SUCCESS : INVALID_DEVICE)
