/* Nodes of graphs, for the files that make them: all of it under one lock. */
#ifndef NODES_H
#define NODES_H

#include "graphs.h"

struct Node {
  Operation operation;
  Graph *graph;
  Node **after; /* the nodes that it depends on */
  size_t after_count;
  size_t position;
  bool is_disabled;
  const Node *original; /* of a node of a clone or an executable graph */
};

typedef struct UserObject {
  void *data;
  void (*destroy)(void *);
  unsigned references;
  struct UserObject *next;
} UserObject;

typedef struct {
  UserObject *object;
  unsigned count;
} Retained;

struct Graph {
  Node **nodes;
  size_t count;
  bool is_executable, is_child; /* not a handle of hipGraph_t; owned by a node */
  unsigned long long flags;
  Retained *retained;
  size_t retained_count;
  Graph *next;
};

extern pthread_mutex_t graphs_lock;

void *grown(void *list, size_t count, size_t size); /* or the process ends */
void *copied(const void *list, size_t count, size_t size);

Operation copy_of(const Operation *from);
Graph *new_graph(void);
Graph *clone_of(const Graph *graph, bool is_executable, bool is_child);
void destroy_graph(Graph *graph);
bool is_graph(const Graph *graph);
bool is_of(const Graph *graph, const Node *node);
bool depends_on(const Node *node, const Node *other);
/* The operation belongs to the node, or is freed on failure. */
int add_node(Node **made, Graph *graph, Node *const *after, size_t count, Operation operation);
void destroy_released(void); /* objects of programs that nothing needs any more; not under the lock */

/* capture.c */
bool is_captured(const Stream *stream);
int capture_node(Stream *stream, Operation operation);

/* A function that runs under the lock; `operation` is what its expressions make. */
#define LOCKED(name, parameters, answer)     \
  EXPORT int name parameters {               \
    ENTER(name);                             \
    Operation operation = {0};               \
    (void)operation;                         \
    pthread_mutex_lock(&graphs_lock);               \
    int error = (answer);                    \
    pthread_mutex_unlock(&graphs_lock);             \
    destroy_released();                      \
    return end(error);                       \
  }

#endif
