/* The capture of streams: what is put on one becomes a node of a graph, after what was captured before it. */
#include <stdlib.h>

#include "nodes.h"

typedef struct {
  Stream *stream;
  Node **last;
  size_t last_count;
} Branch;
typedef struct {
  const Event *event;
  Node **last;
  size_t last_count;
} CapturedEvent;

typedef struct Capture {
  Graph *graph;
  Stream *origin;
  int mode;
  bool is_invalid, is_of_program; /* the graph, which the program has made */
  uint64_t number;
  pthread_t thread;
  Branch *branches;
  size_t branch_count;
  CapturedEvent *events;
  size_t event_count;
  struct Capture *next;
} Capture;

enum { GLOBAL, THREAD_LOCAL, RELAXED }; /* hipStreamCaptureMode */

static Capture *_Atomic captures;
static __thread int thread_mode = GLOBAL;

static Capture *capture_of(const Stream *stream, Branch **branch) {
  for (Capture *capture = captures; capture; capture = capture->next)
    for (size_t n = 0; n < capture->branch_count; n++)
      if (capture->branches[n].stream == stream) {
        if (branch) *branch = &capture->branches[n];
        return capture;
      }
  return NULL;
}
static Capture *capture_with(const Event *event, CapturedEvent **found) {
  for (Capture *capture = captures; capture; capture = capture->next)
    for (size_t n = 0; n < capture->event_count; n++)
      if (capture->events[n].event == event) {
        *found = &capture->events[n];
        return capture;
      }
  return NULL;
}
static void set_last(Branch *branch, Node *const *nodes, size_t count) {
  Node **last = copied(nodes, count, sizeof *nodes);
  free(branch->last);
  branch->last = last;
  branch->last_count = count;
}
static void add_last(Branch *branch, Node *const *nodes, size_t count) {
  for (size_t n = 0; n < count; n++) {
    bool is_there = false;
    for (size_t m = 0; m < branch->last_count; m++) is_there |= branch->last[m] == nodes[n];
    if (is_there) continue;
    branch->last = grown(branch->last, branch->last_count + 1, sizeof *branch->last);
    branch->last[branch->last_count++] = nodes[n];
  }
}

int capture_node(Stream *stream, Operation operation) {
  Branch *branch;
  Capture *capture = capture_of(stream, &branch);
  int error = capture->is_invalid ? CAPTURE_INVALIDATED : SUCCESS;
  if (error) {
    free_operation(&operation);
    return error;
  }
  Node *node;
  error = add_node(&node, capture->graph, branch->last, branch->last_count, operation);
  if (!error) set_last(branch, &node, 1);
  return error;
}

bool is_captured(const Stream *stream) { return capture_of(stream, NULL); }
bool is_capturing(Stream *stream) {
  if (!captures) return false;
  pthread_mutex_lock(&graphs_lock);
  bool answer = capture_of(stream, NULL);
  pthread_mutex_unlock(&graphs_lock);
  return answer;
}

/* The capture of a stream that the default stream, if it is this one, would wait for. */
static Capture *implied_by(const Stream *stream) {
  for (Capture *capture = captures; capture && stream == stream_of(NULL); capture = capture->next)
    for (size_t n = 0; n < capture->branch_count; n++)
      if (!(flags_of_stream(capture->branches[n].stream) & 1)) return capture;
  return NULL;
}
static int refuse_implied(const Stream *stream) {
  Capture *capture = implied_by(stream);
  if (capture) capture->is_invalid = true;
  return capture ? CAPTURE_IMPLICIT : SUCCESS;
}

int submit(void *handle, const Operation *operation) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (!captures) return enqueue(stream, operation);
  pthread_mutex_lock(&graphs_lock);
  bool captured = capture_of(stream, NULL);
  int error = captured ? capture_node(stream, copy_of(operation)) : refuse_implied(stream);
  pthread_mutex_unlock(&graphs_lock);
  return error || captured ? error : enqueue(stream, operation);
}

int refuse_in_capture(void) {
  if (!captures || thread_mode == RELAXED) return SUCCESS;
  bool is_refused = false;
  pthread_mutex_lock(&graphs_lock);
  for (const Capture *capture = captures; capture; capture = capture->next) {
    bool is_own = pthread_equal(capture->thread, pthread_self());
    is_refused |= capture->mode != RELAXED && (is_own || (thread_mode == GLOBAL && capture->mode == GLOBAL));
  }
  pthread_mutex_unlock(&graphs_lock);
  return is_refused ? CAPTURE_UNSUPPORTED : SUCCESS;
}
int refuse_on_capturing(Stream *stream) {
  if (!captures) return SUCCESS;
  pthread_mutex_lock(&graphs_lock);
  Capture *capture = capture_of(stream, NULL);
  if (capture) capture->is_invalid = true;
  int error = capture ? CAPTURE_UNSUPPORTED : refuse_implied(stream);
  pthread_mutex_unlock(&graphs_lock);
  return error;
}
bool is_captured_event(const Event *event) {
  if (!captures) return false;
  CapturedEvent *found;
  pthread_mutex_lock(&graphs_lock);
  bool answer = capture_with(event, &found);
  pthread_mutex_unlock(&graphs_lock);
  return answer;
}

static void forget_event(Capture *capture, CapturedEvent *event) {
  free(event->last);
  *event = capture->events[--capture->event_count];
}
bool record_in_capture(Stream *stream, Event *event) {
  if (!captures) return false;
  pthread_mutex_lock(&graphs_lock);
  CapturedEvent *old;
  Capture *before = capture_with(event, &old);
  if (before) forget_event(before, old);
  Branch *branch;
  Capture *capture = capture_of(stream, &branch);
  if (capture) {
    capture->events = grown(capture->events, capture->event_count + 1, sizeof *capture->events);
    capture->events[capture->event_count++] =
        (CapturedEvent){event, copied(branch->last, branch->last_count, sizeof *branch->last), branch->last_count};
  }
  pthread_mutex_unlock(&graphs_lock);
  return capture;
}

static int wait_locked(Stream *stream, const Event *event, bool *is_captured) {
  CapturedEvent *recorded = NULL;
  Branch *branch = NULL;
  Capture *from = capture_with(event, &recorded), *into = capture_of(stream, &branch);
  *is_captured = from || into;
  if (!*is_captured) return SUCCESS;
  if (into && into != from) {
    into->is_invalid = true;
    return from ? CAPTURE_MERGE : CAPTURE_ISOLATION;
  }
  if (stream == stream_of(NULL)) return CAPTURE_IMPLICIT;
  if (!into) {
    from->branches = grown(from->branches, from->branch_count + 1, sizeof *from->branches);
    branch = &from->branches[from->branch_count++];
    *branch = (Branch){.stream = stream};
  }
  add_last(branch, recorded->last, recorded->last_count);
  return SUCCESS;
}
int wait_in_capture(Stream *stream, Event *event, bool *is_captured) {
  *is_captured = false;
  if (!captures) return SUCCESS;
  pthread_mutex_lock(&graphs_lock);
  int error = wait_locked(stream, event, is_captured);
  pthread_mutex_unlock(&graphs_lock);
  return error;
}

static int begin_capture(void *handle, Graph *graph, Node *const *after, size_t count, int mode) {
  static uint64_t begun;
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (mode < GLOBAL || mode > RELAXED) return INVALID_VALUE;
  if (stream == stream_of(NULL)) return CAPTURE_UNSUPPORTED;
  if (capture_of(stream, NULL)) return 401; /* hipErrorIllegalState */
  for (size_t n = 0; n < count; n++)
    if (!after || !is_of(graph, after[n])) return INVALID_VALUE;
  Capture *capture = calloc(1, sizeof *capture);
  if (!capture) abort();
  *capture = (Capture){.graph = graph ? graph : new_graph(), .is_of_program = graph, .origin = stream, .mode = mode, .number = ++begun,
                       .thread = pthread_self(), .branches = grown(NULL, 1, sizeof(Branch)), .branch_count = 1,
                       .next = captures};
  capture->branches[0] = (Branch){.stream = stream};
  set_last(&capture->branches[0], after, count);
  captures = capture;
  return SUCCESS;
}

/* All that was captured leads to the stream in which it began. */
static bool is_joined(const Capture *capture) {
  for (size_t n = 0; n < capture->graph->count; n++) {
    const Node *node = capture->graph->nodes[n];
    bool is_followed = false;
    for (size_t m = 0; m < capture->graph->count && !is_followed; m++)
      is_followed = depends_on(capture->graph->nodes[m], node);
    for (size_t m = 0; m < capture->branches[0].last_count; m++) is_followed |= capture->branches[0].last[m] == node;
    if (!is_followed && capture->branch_count > 1) return false;
  }
  return true;
}
static int end_capture(void *handle, Graph **made) {
  Stream *stream = stream_of(handle);
  if (!made) return INVALID_VALUE;
  if (!stream) return INVALID_HANDLE;
  Capture *capture = capture_of(stream, NULL);
  if (!capture) return 401;
  if (capture->origin != stream) return CAPTURE_UNMATCHED;
  if (capture->mode != RELAXED && !pthread_equal(capture->thread, pthread_self())) return CAPTURE_WRONG_THREAD;
  int error = capture->is_invalid ? CAPTURE_INVALIDATED : is_joined(capture) ? SUCCESS : CAPTURE_UNJOINED;
  Capture *_Atomic *link = &captures;
  if (captures == capture) {
    captures = capture->next;
  } else {
    Capture *before = *link;
    while (before->next != capture) before = before->next;
    before->next = capture->next;
  }
  *made = error ? NULL : capture->graph;
  if (error && !capture->is_of_program) destroy_graph(capture->graph);
  while (capture->event_count) forget_event(capture, &capture->events[0]);
  for (size_t n = 0; n < capture->branch_count; n++) free(capture->branches[n].last);
  free(capture->branches);
  free(capture->events);
  free(capture);
  return error;
}
LOCKED(hipStreamBeginCapture, (void *stream, int mode), begin_capture(stream, NULL, NULL, 0, mode))
LOCKED(hipStreamBeginCapture_spt, (void *stream, int mode), begin_capture(per_thread(stream), NULL, NULL, 0, mode))
LOCKED(hipStreamBeginCaptureToGraph, (void *stream, Graph *graph, Node *const *after, const void *edges, size_t count, int mode),
       is_graph(graph) ? begin_capture(stream, graph, after, count, mode) : INVALID_VALUE)
LOCKED(hipStreamEndCapture, (void *stream, Graph **made), end_capture(stream, made))
LOCKED(hipStreamEndCapture_spt, (void *stream, Graph **made), end_capture(per_thread(stream), made))
LOCKED(hipThreadExchangeStreamCaptureMode, (int *mode), ({
         int old = thread_mode, good = mode && *mode >= GLOBAL && *mode <= RELAXED;
         if (good) thread_mode = *mode, *mode = old;
         good ? SUCCESS : INVALID_VALUE;
       }))

enum { NOT_CAPTURING, CAPTURING, INVALIDATED }; /* hipStreamCaptureStatus */

static int capture_info(void *handle, int *status, unsigned long long *number, Graph **graph, Node ***last, size_t *count) {
  Stream *stream = stream_of(handle);
  if (!status) return INVALID_VALUE;
  if (!stream) return INVALID_HANDLE;
  if (implied_by(stream)) return CAPTURE_IMPLICIT;
  Branch *branch;
  const Capture *capture = capture_of(stream, &branch);
  *status = !capture ? NOT_CAPTURING : capture->is_invalid ? INVALIDATED : CAPTURING;
  if (*status != CAPTURING) return SUCCESS;
  if (number) *number = capture->number;
  if (graph) *graph = capture->graph;
  if (last) *last = branch->last;
  if (count) *count = branch->last_count;
  return SUCCESS;
}
LOCKED(hipStreamIsCapturing, (void *stream, int *status), capture_info(stream, status, NULL, NULL, NULL, NULL))
LOCKED(hipStreamIsCapturing_spt, (void *stream, int *status),
       capture_info(per_thread(stream), status, NULL, NULL, NULL, NULL))
LOCKED(hipStreamGetCaptureInfo, (void *stream, int *status, unsigned long long *number),
       capture_info(stream, status, number, NULL, NULL, NULL))
LOCKED(hipStreamGetCaptureInfo_spt, (void *stream, int *status, unsigned long long *number),
       capture_info(per_thread(stream), status, number, NULL, NULL, NULL))
LOCKED(hipStreamGetCaptureInfo_v2, (void *stream, int *status, unsigned long long *number, Graph **graph, Node ***last, size_t *count),
       capture_info(stream, status, number, graph, last, count))
LOCKED(hipStreamGetCaptureInfo_v2_spt, (void *stream, int *status, unsigned long long *number, Graph **graph, Node ***last, size_t *count),
       capture_info(per_thread(stream), status, number, graph, last, count))

static int change_captured(void *handle, Node *const *nodes, size_t count, unsigned flags) {
  enum { ADDED, SET };
  Branch *branch;
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  const Capture *capture = capture_of(stream, &branch);
  if (!capture) return 401;
  if (flags > SET || (count && !nodes)) return INVALID_VALUE;
  for (size_t n = 0; n < count; n++)
    if (!is_of(capture->graph, nodes[n])) return INVALID_VALUE;
  if (flags == SET) set_last(branch, nodes, count);
  else add_last(branch, nodes, count);
  return SUCCESS;
}
LOCKED(hipStreamUpdateCaptureDependencies, (void *stream, Node *const *nodes, size_t count, unsigned flags),
       change_captured(stream, nodes, count, flags))
