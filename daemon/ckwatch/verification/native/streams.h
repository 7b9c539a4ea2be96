/* Streams: threads that take one command after the other, and the events between them. */
#ifndef STREAMS_H
#define STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Stream Stream;
typedef struct Event Event;

/* Handles of streams that are no pointers: NULL and 1 are the default stream, 2 is this thread's own. */
Stream *stream_of(void *handle); /* NULL when there is no such stream */
Stream *new_stream(unsigned flags, int priority);
void destroy_stream(Stream *stream); /* after all that has been put */
bool is_idle(Stream *stream);
void drain(Stream *stream); /* the default stream: with all that it waits for */
void drain_all(void);
/* From now on other streams run nothing but what something waits for; all run again with NULL. */
void hold_others(Stream *stream);
unsigned flags_of_stream(const Stream *stream);
int priority_of_stream(const Stream *stream);

/* The order of legacy default streams: what is put on the default stream waits for what has been put on others, and
 * what is put on others waits for it, but for those that are non-blocking. */
void put_call(Stream *stream, void (*function)(void *), void *data);
void put_fill(Stream *stream, void *target, uint64_t count, uint32_t value, int width);
void put_copy(Stream *stream, void *target, const void *source, size_t size);
void put_copy_rows(Stream *stream, void *target, size_t target_pitch, const void *source, size_t source_pitch,
                   size_t width, size_t height);
void put_wait_value(Stream *stream, const void *address, uint64_t value, uint64_t mask, unsigned comparison, int width);
void put_write_value(Stream *stream, void *address, uint64_t value, int width);
void put_record(Stream *stream, Event *event);
void put_wait_event(Stream *stream, Event *event);

Event *new_event(void);
void destroy_event(Event *event);
bool is_event(const Event *event);
bool is_reached(Event *event); /* all that has been recorded */
void wait_for_event(Event *event);
/* hipSuccess, hipErrorNotReady, or hipErrorInvalidHandle when one was never recorded. */
int between_events(Event *begin, Event *end, double *milliseconds);

/* Bytes that have been copied or filled are defined, or undefined as those that they come from. */
void copy_bytes(void *target, const void *source, size_t size);
void fill_bytes(void *target, uint64_t count, uint32_t value, int width);

#endif
