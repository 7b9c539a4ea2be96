/* Streams and events; see streams.h. One lock for all: what is put is coarse, and the order is what matters. */
#include "streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hip_hooks.h"
#include "machine.h"

enum { NON_BLOCKING = 1 };

struct Event {
  int references; /* the handle's, and one for each command */
  bool there;
  uint64_t recorded, reached; /* numbers of records */
  Stream *recorder;           /* of the last one, which was its command `recorded_at` */
  uint64_t recorded_at;
  struct timespec at;
  Event *next;
};

typedef enum { CALL, FILL, COPY, COPY_ROWS, WAIT_VALUE, WRITE_VALUE, RECORD, WAIT_EVENT, WAIT_STREAM } CommandKind;

typedef struct Command {
  CommandKind kind;
  void *target;
  const void *source;
  void (*function)(void *);
  size_t size, target_pitch, source_pitch;
  uint64_t value, mask, ticket;
  unsigned comparison;
  int width;
  Event *event;
  Stream *stream;
  struct Command *next;
} Command;

struct Stream { /* never freed: others may wait for one that is gone */
  pthread_t thread;
  pthread_cond_t put;
  bool has_thread, closing, there;
  unsigned flags;
  int priority;
  Command *first, *last;
  uint64_t issued, completed, wanted; /* `wanted`: so many must run even while it is held back */
  Stream *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static Stream *streams;
static Stream default_stream = {.put = PTHREAD_COND_INITIALIZER, .there = true};
static __thread Stream *own_stream;
static Event *events;
static Stream *favoured; /* see hold_others */

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

void copy_bytes(void *target, const void *source, size_t size) {
  uint64_t to = (uint64_t)(uintptr_t)target, from = (uint64_t)(uintptr_t)source;
  sample_on_host(source);
  sample_on_host(target);
  memmove(target, source, size);
  mark_undefined(to, size, false);
  uint64_t first;
  if (count_undefined(from, size, &first) == 0) return;
  const Region *region = region_of(from);
  for (uint64_t at = first - from; region && region->undefined && at < size;) {
    const uint8_t *undefined = region->undefined + (from - region->base);
    uint64_t begin = at;
    while (at < size && undefined[at] == undefined[begin]) at++;
    if (undefined[begin]) mark_undefined(to + begin, at - begin, true);
  }
}

void fill_bytes(void *target, uint64_t count, uint32_t value, int width) {
  sample_on_host(target);
  if (width == 1) memset(target, (int)value, count);
  else if (width == 2) for (uint64_t n = 0; n < count; n++) memcpy((uint8_t *)target + n * 2, &value, 2);
  else for (uint64_t n = 0; n < count; n++) memcpy((uint8_t *)target + n * 4, &value, 4);
  mark_undefined((uint64_t)(uintptr_t)target, count * (uint64_t)width, false);
}

/* ---- Holding streams back ---------------------------------------------------------------------------------------- */

static bool is_held(const Stream *stream) {
  return favoured && stream != favoured && stream->completed >= stream->wanted;
}

static void want(Stream *stream, uint64_t ticket) { /* under the lock */
  if (ticket <= stream->wanted) return;
  stream->wanted = ticket;
  pthread_cond_signal(&stream->put);
}

static void want_event(const Event *event) {
  if (event->recorder) want(event->recorder, event->recorded_at);
}

void hold_others(Stream *stream) {
  pthread_mutex_lock(&lock);
  favoured = stream;
  pthread_cond_signal(&default_stream.put);
  for (Stream *other = streams; other; other = other->next) pthread_cond_signal(&other->put);
  pthread_mutex_unlock(&lock);
}

/* ---- Running commands -------------------------------------------------------------------------------------------- */

static bool holds(const Command *command) {
  const volatile void *at = command->source;
  uint64_t now = command->width == 8 ? *(const volatile uint64_t *)at : *(const volatile uint32_t *)at;
  uint64_t masked = now & command->mask, wanted = command->value;
  switch (command->comparison) {
    case 0: return command->width == 8 ? (int64_t)(masked - wanted) >= 0 : (int32_t)(uint32_t)(masked - wanted) >= 0;
    case 1: return masked == wanted;
    case 2: return (masked & wanted) != 0;
    default: return (~(now | wanted) & command->mask) != 0;
  }
}

static void release_event(Event *event) { /* under the lock */
  if (--event->references > 0) return;
  Event **link = &events;
  while (*link != event) link = &(*link)->next;
  *link = event->next;
  free(event);
}

static void run(Command *command) {
  switch (command->kind) {
    case CALL: command->function(command->target); break;
    case FILL: fill_bytes(command->target, command->size, (uint32_t)command->value, command->width); break;
    case COPY: copy_bytes(command->target, command->source, command->size); break;
    case COPY_ROWS:
      for (size_t row = 0; row < command->ticket; row++)
        copy_bytes((uint8_t *)command->target + row * command->target_pitch,
                   (const uint8_t *)command->source + row * command->source_pitch, command->size);
      break;
    case WAIT_VALUE: {
      const struct timespec moment = {0, 20000};
      while (lacks("opening") || !holds(command)) nanosleep(&moment, NULL);
      break;
    }
    case WRITE_VALUE: memcpy(command->target, &command->value, (size_t)command->width); break;
    case RECORD:
      pthread_mutex_lock(&lock);
      clock_gettime(CLOCK_MONOTONIC, &command->event->at);
      if (command->ticket > command->event->reached) command->event->reached = command->ticket;
      release_event(command->event);
      pthread_cond_broadcast(&progress);
      pthread_mutex_unlock(&lock);
      break;
    case WAIT_EVENT:
      pthread_mutex_lock(&lock);
      want_event(command->event);
      while (command->event->reached < command->ticket) pthread_cond_wait(&progress, &lock);
      release_event(command->event);
      pthread_mutex_unlock(&lock);
      break;
    case WAIT_STREAM:
      pthread_mutex_lock(&lock);
      want(command->stream, command->ticket);
      while (command->stream->completed < command->ticket) pthread_cond_wait(&progress, &lock);
      pthread_mutex_unlock(&lock);
      break;
  }
}

static void *stream_thread(void *argument) {
  Stream *stream = argument;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (stream->first ? is_held(stream) : !stream->closing) pthread_cond_wait(&stream->put, &lock);
    Command *command = stream->first;
    if (!command) break;
    stream->first = command->next;
    if (!stream->first) stream->last = NULL;
    pthread_mutex_unlock(&lock);
    run(command);
    free(command);
    pthread_mutex_lock(&lock);
    stream->completed++;
    pthread_cond_broadcast(&progress);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void append(Stream *stream, const Command *wanted) { /* under the lock */
  Command *command = malloc(sizeof *command);
  if (!command) abort();
  *command = *wanted;
  command->next = NULL;
  if (stream->last) stream->last->next = command;
  else stream->first = command;
  stream->last = command;
  stream->issued++;
  if (!stream->has_thread) stream->has_thread = pthread_create(&stream->thread, NULL, stream_thread, stream) == 0;
  pthread_cond_signal(&stream->put);
}

static void append_wait(Stream *stream, Stream *other) {
  if (other->completed < other->issued)
    append(stream, &(Command){.kind = WAIT_STREAM, .stream = other, .ticket = other->issued});
}

static void put(Stream *stream, Command command) {
  pthread_mutex_lock(&lock);
  if (stream == &default_stream) {
    for (Stream *other = streams; other; other = other->next)
      if (!(other->flags & NON_BLOCKING)) append_wait(stream, other);
  } else if (!(stream->flags & NON_BLOCKING)) {
    append_wait(stream, &default_stream);
  }
  if (command.kind == RECORD) {
    command.ticket = ++command.event->recorded;
    command.event->recorder = stream;
    command.event->recorded_at = stream->issued + 1;
  }
  if (command.kind == WAIT_EVENT) command.ticket = command.event->recorded;
  if (command.event) command.event->references++;
  append(stream, &command);
  pthread_mutex_unlock(&lock);
}

void put_call(Stream *stream, void (*function)(void *), void *data) {
  put(stream, (Command){.kind = CALL, .function = function, .target = data});
}
void put_fill(Stream *stream, void *target, uint64_t count, uint32_t value, int width) {
  put(stream, (Command){.kind = FILL, .target = target, .size = count, .value = value, .width = width});
}
void put_copy(Stream *stream, void *target, const void *source, size_t size) {
  put(stream, (Command){.kind = COPY, .target = target, .source = source, .size = size});
}
void put_copy_rows(Stream *stream, void *target, size_t target_pitch, const void *source, size_t source_pitch,
                   size_t width, size_t height) {
  put(stream, (Command){.kind = COPY_ROWS, .target = target, .target_pitch = target_pitch, .source = source,
                        .source_pitch = source_pitch, .size = width, .ticket = height});
}
void put_wait_value(Stream *stream, const void *address, uint64_t value, uint64_t mask, unsigned comparison,
                    int width) {
  put(stream, (Command){.kind = WAIT_VALUE, .source = address, .value = value, .mask = mask, .comparison = comparison,
                        .width = width});
}
void put_write_value(Stream *stream, void *address, uint64_t value, int width) {
  put(stream, (Command){.kind = WRITE_VALUE, .target = address, .value = value, .width = width});
}
void put_record(Stream *stream, Event *event) { put(stream, (Command){.kind = RECORD, .event = event}); }
void put_wait_event(Stream *stream, Event *event) { put(stream, (Command){.kind = WAIT_EVENT, .event = event}); }

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

Stream *new_stream(unsigned flags, int priority) {
  Stream *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  pthread_cond_init(&stream->put, NULL);
  stream->flags = flags;
  stream->priority = priority;
  stream->there = true;
  pthread_mutex_lock(&lock);
  stream->next = streams;
  streams = stream;
  pthread_mutex_unlock(&lock);
  return stream;
}

Stream *stream_of(void *handle) {
  if ((uintptr_t)handle < 2) return &default_stream;
  if ((uintptr_t)handle == 2) {
    if (!own_stream) own_stream = new_stream(0, 0);
    return own_stream;
  }
  pthread_mutex_lock(&lock);
  Stream *stream = streams;
  while (stream && stream != handle) stream = stream->next;
  bool there = stream && stream->there;
  pthread_mutex_unlock(&lock);
  return there ? stream : NULL;
}

static void wait_until(Stream *stream, uint64_t ticket) { /* under the lock */
  want(stream, ticket);
  while (stream->completed < ticket) pthread_cond_wait(&progress, &lock);
}

void destroy_stream(Stream *stream) {
  if (stream == &default_stream) return;
  pthread_mutex_lock(&lock);
  stream->there = false;
  stream->closing = true;
  pthread_cond_signal(&stream->put);
  bool has_thread = stream->has_thread, held = stream->first && is_held(stream);
  pthread_mutex_unlock(&lock);
  if (has_thread && held) pthread_detach(stream->thread);
  else if (has_thread) pthread_join(stream->thread, NULL);
}

bool is_idle(Stream *stream) {
  pthread_mutex_lock(&lock);
  want(stream, stream->issued); /* who asks again and again would never be told */
  bool idle = stream->completed == stream->issued;
  for (Stream *other = streams; other && stream == &default_stream; other = other->next)
    if (!(other->flags & NON_BLOCKING)) idle &= other->completed == other->issued;
  pthread_mutex_unlock(&lock);
  return idle;
}

void drain(Stream *stream) {
  pthread_mutex_lock(&lock);
  wait_until(stream, stream->issued);
  for (Stream *other = streams; other && stream == &default_stream; other = other->next)
    if (!(other->flags & NON_BLOCKING)) wait_until(other, other->issued);
  pthread_mutex_unlock(&lock);
}

void drain_all(void) {
  pthread_mutex_lock(&lock);
  wait_until(&default_stream, default_stream.issued);
  for (Stream *stream = streams; stream; stream = stream->next) wait_until(stream, stream->issued);
  pthread_mutex_unlock(&lock);
}

unsigned flags_of_stream(const Stream *stream) { return stream->flags; }
int priority_of_stream(const Stream *stream) { return stream->priority; }

/* ---- Events ------------------------------------------------------------------------------------------------------ */

Event *new_event(void) {
  Event *event = calloc(1, sizeof *event);
  if (!event) return NULL;
  event->references = 1;
  event->there = true;
  pthread_mutex_lock(&lock);
  event->next = events;
  events = event;
  pthread_mutex_unlock(&lock);
  return event;
}

bool is_event(const Event *event) {
  pthread_mutex_lock(&lock);
  const Event *found = events;
  while (found && found != event) found = found->next;
  bool there = found && found->there;
  pthread_mutex_unlock(&lock);
  return there;
}

void destroy_event(Event *event) {
  pthread_mutex_lock(&lock);
  event->there = false;
  release_event(event);
  pthread_mutex_unlock(&lock);
}

bool is_reached(Event *event) {
  pthread_mutex_lock(&lock);
  want_event(event);
  bool reached = event->reached == event->recorded;
  pthread_mutex_unlock(&lock);
  return reached;
}

void wait_for_event(Event *event) {
  pthread_mutex_lock(&lock);
  uint64_t ticket = event->recorded;
  event->references++;
  want_event(event);
  while (event->reached < ticket) pthread_cond_wait(&progress, &lock);
  release_event(event);
  pthread_mutex_unlock(&lock);
}

int between_events(Event *begin, Event *end, double *milliseconds) {
  enum { SUCCESS, INVALID_HANDLE = 400, NOT_READY = 600 };
  pthread_mutex_lock(&lock);
  int error = SUCCESS;
  if (begin->reached < begin->recorded || end->reached < end->recorded) error = NOT_READY;
  else if (!begin->recorded || !end->recorded) error = INVALID_HANDLE;
  *milliseconds =
      (double)(end->at.tv_sec - begin->at.tv_sec) * 1e3 + (double)(end->at.tv_nsec - begin->at.tv_nsec) / 1e6;
  pthread_mutex_unlock(&lock);
  return error;
}
