/* HIP's functions of streams and events. */
#include "hip.h"

#include <stdlib.h>

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
EXPORT int hipStreamQuery(void *stream) {
  ENTER(hipStreamQuery);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  return is_idle(stream_of(stream)) ? SUCCESS : NOT_READY;
}
EXPORT int hipStreamSynchronize(void *stream) {
  ENTER(hipStreamSynchronize);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  drain(stream_of(stream));
  return end(broken);
}
ACT(hipStreamGetFlags, (void *stream, unsigned *flags),
    stream_of(stream), INVALID_HANDLE, *flags = flags_of_stream(stream_of(stream)))
ACT(hipStreamGetPriority, (void *stream, int *priority),
    stream_of(stream), INVALID_HANDLE, *priority = priority_of_stream(stream_of(stream)))
ACT(hipStreamGetDevice, (void *stream, int *number), stream_of(stream), INVALID_HANDLE, *number = 0)
EXPORT int hipStreamIsCapturing(void *stream, int *status) {
  ENTER(hipStreamIsCapturing);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  *status = 0; /* hipStreamCaptureStatusNone */
  return SUCCESS;
}
EXPORT int hipDeviceSynchronize(void) {
  ENTER(hipDeviceSynchronize);
  drain_all();
  return end(broken);
}
ACT(hipDeviceReset, (void), true, SUCCESS, drain_all())

static int wait_value(void *stream, void *address, uint64_t value, unsigned flags, uint64_t mask, int width) {
  if (lacks("wait-value") || flags > 3 || !address) return INVALID_VALUE;
  if (!stream_of(stream)) return INVALID_HANDLE;
  put_wait_value(stream_of(stream), address, value, mask, flags, width);
  return SUCCESS;
}
CALL(hipStreamWaitValue32, (void *stream, void *address, uint32_t value, unsigned flags, uint32_t mask),
     wait_value(stream, address, value, flags, mask, 4))
CALL(hipStreamWaitValue64, (void *stream, void *address, uint64_t value, unsigned flags, uint64_t mask),
     wait_value(stream, address, value, flags, mask, 8))
static int write_value(void *stream, void *address, uint64_t value, int width) {
  if (!address) return INVALID_VALUE;
  if (!stream_of(stream)) return INVALID_HANDLE;
  put_write_value(stream_of(stream), address, value, width);
  return SUCCESS;
}
CALL(hipStreamWriteValue32, (void *stream, void *address, uint32_t value, unsigned flags),
     write_value(stream, address, value, 4))
CALL(hipStreamWriteValue64, (void *stream, void *address, uint64_t value, unsigned flags),
     write_value(stream, address, value, 8))
EXPORT int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  ENTER(hipLaunchHostFunc);
  if (!function) return end(INVALID_VALUE);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  put_call(stream_of(stream), function, data);
  return SUCCESS;
}

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
EXPORT int hipStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned flags) {
  ENTER(hipStreamAddCallback);
  Callback *callback = malloc(sizeof *callback);
  if (!function || flags || !callback || !stream_of(stream)) {
    free(callback);
    return end(stream_of(stream) ? INVALID_VALUE : INVALID_HANDLE);
  }
  *callback = (Callback){stream, function, data};
  put_call(stream_of(stream), call_back, callback);
  return SUCCESS;
}

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
ACT(hipEventRecord, (void *event, void *stream),
    is_event(event) && stream_of(stream), INVALID_HANDLE, put_record(stream_of(stream), event))
ACT(hipEventRecordWithFlags, (void *event, void *stream, unsigned flags),
    is_event(event) && stream_of(stream), INVALID_HANDLE, put_record(stream_of(stream), event))
EXPORT int hipEventQuery(void *event) {
  ENTER(hipEventQuery);
  if (!is_event(event)) return end(INVALID_HANDLE);
  return is_reached(event) ? SUCCESS : NOT_READY;
}
EXPORT int hipEventSynchronize(void *event) {
  ENTER(hipEventSynchronize);
  if (!is_event(event)) return end(INVALID_HANDLE);
  wait_for_event(event);
  return end(broken);
}
ACT(hipStreamWaitEvent, (void *stream, void *event, unsigned flags),
    is_event(event) && stream_of(stream), INVALID_HANDLE, put_wait_event(stream_of(stream), event))
EXPORT int hipEventElapsedTime(float *milliseconds, void *begin, void *finish) {
  ENTER(hipEventElapsedTime);
  if (!milliseconds || !is_event(begin) || !is_event(finish)) return end(milliseconds ? INVALID_HANDLE : INVALID_VALUE);
  double elapsed;
  int error = between_events(begin, finish, &elapsed);
  /* How long the emulator took is no property of the kernel. */
  if (!error && !told_number("CLOCK", 0)) error = NOT_SUPPORTED;
  *milliseconds = error ? 0 : (float)elapsed;
  return end(error);
}
