/* HIP's functions of streams and events. */
#include <math.h>
#include <stdlib.h>

#include "graphs.h"

static int make_stream(void **handle, unsigned flags, int priority) {
  if (!handle || flags > 1) return INVALID_VALUE;
  if (!devices()) return NO_DEVICE;
  *handle = new_stream(flags, priority);
  return *handle ? SUCCESS : OUT_OF_MEMORY;
}
CALL(hipStreamCreate, (void **stream), make_stream(stream, 0, 0))
CALL(hipStreamCreateWithFlags, (void **stream, unsigned flags), make_stream(stream, flags, 0))
CALL(hipStreamCreateWithPriority, (void **stream, unsigned flags, int priority), make_stream(stream, flags, priority))
EXPORT int hipStreamDestroy(void *stream) {
  ENTER(hipStreamDestroy);
  if ((uintptr_t)stream <= 2 || !stream_of(stream)) return end(INVALID_HANDLE);
  destroy_stream(stream);
  return SUCCESS;
}
static int query_stream(void *handle) {
  Stream *stream = stream_of(handle);
  int error = stream ? refuse_on_capturing(stream) : INVALID_HANDLE;
  return error ? error : is_idle(stream) ? SUCCESS : NOT_READY;
}
EXPORT int hipStreamQuery(void *stream) { /* not being ready is no error */
  ENTER(hipStreamQuery);
  int answer = query_stream(stream);
  return answer == NOT_READY ? answer : end(answer);
}
EXPORT int hipStreamQuery_spt(void *stream) { return hipStreamQuery(per_thread(stream)); }
static int wait_for_stream(void *handle) {
  Stream *stream = stream_of(handle);
  int error = stream ? refuse_on_capturing(stream) : INVALID_HANDLE;
  if (error) return error;
  drain(stream);
  return broken;
}
CALL(hipStreamSynchronize, (void *stream), wait_for_stream(stream))
CALL(hipStreamSynchronize_spt, (void *stream), wait_for_stream(per_thread(stream)))
static int read_stream(void *handle, unsigned *flags, int *priority, int *number) {
  const Stream *stream = stream_of(handle);
  if (!flags && !priority && !number) return INVALID_VALUE;
  if (!stream) return INVALID_HANDLE;
  if (flags) *flags = flags_of_stream(stream);
  if (priority) *priority = priority_of_stream(stream);
  if (number) *number = 0;
  return SUCCESS;
}
CALL(hipStreamGetFlags, (void *stream, unsigned *flags), read_stream(stream, flags, NULL, NULL))
CALL(hipStreamGetFlags_spt, (void *stream, unsigned *flags), read_stream(per_thread(stream), flags, NULL, NULL))
CALL(hipStreamGetPriority, (void *stream, int *priority), read_stream(stream, NULL, priority, NULL))
CALL(hipStreamGetPriority_spt, (void *stream, int *priority), read_stream(per_thread(stream), NULL, priority, NULL))
CALL(hipStreamGetDevice, (void *stream, int *number), read_stream(stream, NULL, NULL, number))
EXPORT int hipGetStreamDeviceId(void *stream) { return stream_of(stream) ? 0 : -1; }
ACT(hipStreamGetId, (void *stream, unsigned long long *number),
    stream_of(stream) && number, stream_of(stream) ? INVALID_VALUE : INVALID_HANDLE,
    *number = (uintptr_t)stream_of(stream))

/* A stream that may use some units only: results do not depend on it. */
CALL(hipExtStreamCreateWithCUMask, (void **stream, uint32_t words, const uint32_t *mask),
     words && mask ? make_stream(stream, 0, 0) : INVALID_VALUE)
EXPORT int hipExtStreamGetCUMask(void *stream, uint32_t words, uint32_t *mask) {
  ENTER(hipExtStreamGetCUMask);
  if (!mask || words * 32 < (uint32_t)device()->compute_units) return end(INVALID_VALUE);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  for (uint32_t n = 0; n < words; n++) mask[n] = 0;
  for (int n = 0; n < device()->compute_units; n++) mask[n / 32] |= 1u << n % 32;
  return SUCCESS;
}
CALL(hipStreamAttachMemAsync, (void *stream, void *address, size_t size, unsigned flags),
     !stream_of(stream) ? INVALID_HANDLE : address && flags && !(flags & (flags - 1)) && flags <= 4 ? SUCCESS : INVALID_VALUE)

EXPORT int hipDeviceSynchronize(void) {
  ENTER(hipDeviceSynchronize);
  int error = refuse_in_capture();
  if (error) return end(error);
  drain_all();
  return end(broken);
}
ACT(hipDeviceReset, (void), true, SUCCESS, drain_all())

/* hipStreamBatchMemOpType */
enum { WAIT_32 = 1, WRITE_32, WAIT_64 = 4, WRITE_64 };

static int submit_values(void *stream, unsigned count, ValueOperation *values) {
  return submit(stream, &(Operation){.type = VALUES_NODE, .values = {.count = count, .operations = values}});
}
static int wait_value(void *stream, void *address, uint64_t value, unsigned flags, uint64_t mask, int width) {
  if (lacks("wait-value") || flags > 3 || !address) return INVALID_VALUE;
  ValueOperation wait = {.operation = width == 8 ? WAIT_64 : WAIT_32, .address = address, .value = value,
                         .flags = flags, .mask = mask};
  return submit_values(stream, 1, &wait);
}
CALL(hipStreamWaitValue32, (void *stream, void *address, uint32_t value, unsigned flags, uint32_t mask),
     wait_value(stream, address, value, flags, mask, 4))
CALL(hipStreamWaitValue64, (void *stream, void *address, uint64_t value, unsigned flags, uint64_t mask),
     wait_value(stream, address, value, flags, mask, 8))
static int write_value(void *stream, void *address, uint64_t value, int width) {
  if (!address) return INVALID_VALUE;
  ValueOperation write = {.operation = width == 8 ? WRITE_64 : WRITE_32, .address = address, .value = value};
  return submit_values(stream, 1, &write);
}
EXPORT int hipStreamBatchMemOp(void *stream, unsigned count, const ValueOperation *values, unsigned flags) {
  enum { MOST = 256 };
  ENTER(hipStreamBatchMemOp);
  if (!values || !count || count > MOST || flags) return end(INVALID_VALUE);
  ValueOperation all[MOST];
  for (unsigned n = 0; n < count; n++) {
    all[n] = values[n];
    all[n].mask = UINT64_MAX;
  }
  return end(submit_values(stream, count, all));
}
CALL(hipStreamWriteValue32, (void *stream, void *address, uint32_t value, unsigned flags),
     write_value(stream, address, value, 4))
CALL(hipStreamWriteValue64, (void *stream, void *address, uint64_t value, unsigned flags),
     write_value(stream, address, value, 8))
static int launch_host(void *stream, void (*function)(void *), void *data) {
  return function ? submit(stream, &(Operation){.type = HOST_NODE, .host = {function, data}}) : INVALID_VALUE;
}
CALL(hipLaunchHostFunc, (void *stream, void (*function)(void *), void *data), launch_host(stream, function, data))
CALL(hipLaunchHostFunc_spt, (void *stream, void (*function)(void *), void *data),
     launch_host(per_thread(stream), function, data))

typedef struct {
  void *stream;
  void (*function)(void *, int, void *);
  void *data;
} Callback;
static void call_back(void *argument) {
  Callback *callback = argument;
  callback->function(callback->stream, broken, callback->data);
  free(callback);
}
static int add_callback(void *stream, void (*function)(void *, int, void *), void *data, unsigned flags) {
  if (!function || flags) return INVALID_VALUE;
  int error = stream_of(stream) ? refuse_on_capturing(stream_of(stream)) : INVALID_HANDLE;
  Callback *callback = error ? NULL : malloc(sizeof *callback);
  if (!callback) return error ? error : OUT_OF_MEMORY;
  *callback = (Callback){stream, function, data};
  put_call(stream_of(stream), call_back, callback);
  return SUCCESS;
}
CALL(hipStreamAddCallback, (void *stream, void (*function)(void *, int, void *), void *data, unsigned flags),
     add_callback(stream, function, data, flags))
CALL(hipStreamAddCallback_spt, (void *stream, void (*function)(void *, int, void *), void *data, unsigned flags),
     add_callback(per_thread(stream), function, data, flags))

static int make_event(void **made) {
  if (!made) return INVALID_VALUE;
  *made = new_event();
  return *made ? SUCCESS : OUT_OF_MEMORY;
}
CALL(hipEventCreate, (void **made), make_event(made))
EXPORT int hipEventCreateWithFlags(void **made, unsigned flags) {
  enum { DISABLE_SYSTEM_FENCE = 0x20000000 };
  ENTER(hipEventCreateWithFlags);
  if (flags & DISABLE_SYSTEM_FENCE && lacks("fence-flag")) return end(INVALID_VALUE);
  return end(make_event(made));
}
ACT(hipEventDestroy, (void *event), is_event(event), INVALID_HANDLE, destroy_event(event))
static int record(void *event, void *handle) {
  Stream *stream = stream_of(handle);
  if (!stream || !is_event(event)) return INVALID_HANDLE;
  if (!record_in_capture(stream, event)) put_record(stream, event);
  return SUCCESS;
}
CALL(hipEventRecord, (void *event, void *stream), record(event, stream))
CALL(hipEventRecord_spt, (void *event, void *stream), record(event, per_thread(stream)))
static int record_with(void *event, void *stream, unsigned flags) {
  enum { EXTERNAL = 1 }; /* a node of its own in a graph that is captured */
  if (flags > EXTERNAL) return INVALID_VALUE;
  if (!flags || !stream_of(stream)) return record(event, stream);
  return is_event(event) ? submit(stream, &(Operation){.type = RECORD_NODE, .event = event}) : INVALID_HANDLE;
}
CALL(hipEventRecordWithFlags, (void *event, void *stream, unsigned flags), record_with(event, stream, flags))
EXPORT int hipEventQuery(void *event) {
  ENTER(hipEventQuery);
  if (!is_event(event)) return end(INVALID_HANDLE);
  if (is_captured_event(event)) return end(CAPTURED_EVENT);
  return is_reached(event) ? SUCCESS : NOT_READY;
}
EXPORT int hipEventSynchronize(void *event) {
  ENTER(hipEventSynchronize);
  if (!is_event(event)) return end(INVALID_HANDLE);
  if (is_captured_event(event)) return end(CAPTURED_EVENT);
  wait_for_event(event);
  return end(broken);
}
static int wait_event(void *handle, void *event, unsigned flags) {
  enum { EXTERNAL = 1 };
  Stream *stream = stream_of(handle);
  if (!stream || !is_event(event)) return INVALID_HANDLE;
  if (flags > EXTERNAL) return INVALID_VALUE;
  if (flags) return submit(handle, &(Operation){.type = WAIT_NODE, .event = event});
  bool is_captured;
  int error = wait_in_capture(stream, event, &is_captured);
  if (!is_captured) put_wait_event(stream, event);
  return error;
}
CALL(hipStreamWaitEvent, (void *stream, void *event, unsigned flags), wait_event(stream, event, flags))
CALL(hipStreamWaitEvent_spt, (void *stream, void *event, unsigned flags), wait_event(per_thread(stream), event, flags))
EXPORT int hipEventElapsedTime(float *milliseconds, void *begin, void *finish) {
  ENTER(hipEventElapsedTime);
  if (!milliseconds || !is_event(begin) || !is_event(finish)) return end(milliseconds ? INVALID_HANDLE : INVALID_VALUE);
  double elapsed;
  int error = between_events(begin, finish, &elapsed);
  /* How long the emulator took is no property of the kernel; an error would end programs that check for them. */
  *milliseconds = error ? 0 : told_number("CLOCK", 0) ? (float)elapsed : NAN;
  return end(error);
}
