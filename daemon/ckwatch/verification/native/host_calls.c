/* Calls of the host from kernels: a wave puts a packet on the stack of those that are ready, sends an interrupt, and waits
 * until the flag of the packet is reset.
 *
 * The layout of buffer, packets and messages is that of ROCm's device library up to 7.2 (ockl's hostcall_impl.cl,
 * services.cl and dm.cl) and of its runtime (rocclr's devhostcall.cpp, devhcmessages.cpp and devhcprintf.cpp).
 * An interrupt is answered before the wave goes on, so that text appears in the order in which it is printed. */
#include "host_calls.h"

#include "code_object.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
  uint64_t next, active;
  uint32_t service;
  _Atomic uint32_t control; /* bit 0: waits for an answer */
} Packet;

typedef uint64_t Payload[LANES][8];

typedef struct { /* amd_signal_t: what waves write of it */
  int64_t kind, value;
  uint64_t mailbox;
  uint32_t event, reserved[9];
} Signal;

typedef struct {
  Packet *packets;
  Payload *payloads;
  Signal *doorbell;
  uint64_t free;
  _Atomic uint64_t ready;
  uint64_t mask; /* of a packet's number in what is on the stacks; the rest is changed each time */
  alignas(64) Signal signal;
  uint64_t mailbox;
} Buffer;

/* As many as waves can be at work on 256 threads; no wave has two. */
enum { PACKETS = 1 << 17 };
enum { FUNCTION = 1, PRINTF = 2, MEMORY_OF_DEVICE = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Buffer *buffer;
static uint8_t *heap;

uint64_t host_call_buffer(void) {
  size_t packets = (sizeof(Buffer) + 63) & ~(size_t)63, payloads = packets + PACKETS * sizeof(Packet);
  size_t bytes = payloads + PACKETS * sizeof(Payload);
  pthread_mutex_lock(&lock);
  uint8_t *memory = buffer ? NULL : map_guarded(bytes);
  if (memory) {
    Buffer *b = (Buffer *)memory;
    b->packets = (Packet *)(memory + packets);
    b->payloads = (Payload *)(memory + payloads);
    b->mask = PACKETS - 1;
    b->signal.kind = 1; /* AMD_SIGNAL_KIND_USER: waves do not look */
    b->signal.mailbox = (uint64_t)(uintptr_t)&b->mailbox; /* with one, they send an interrupt */
    b->signal.event = 1;
    b->doorbell = &b->signal;
    for (uint64_t n = 1; n < PACKETS; n++) b->packets[n].next = n == 1 ? PACKETS : n - 1; /* 0 would end the stack */
    b->free = PACKETS - 1;
    add_region((uint64_t)(uintptr_t)memory, bytes, HOST_CALLS);
    buffer = b;
  }
  pthread_mutex_unlock(&lock);
  return (uint64_t)(uintptr_t)buffer;
}

/* ---- printf ------------------------------------------------------------------------------------------------------ */

typedef struct {
  uint64_t *words;
  size_t count, room;
  bool live;
} Message;

static Message *messages;
static uint64_t message_count;
static char error_line[512];

static Message *new_message(uint64_t *number) {
  for (*number = 0; *number < message_count; ++*number)
    if (!messages[*number].live) break;
  if (*number == message_count) {
    messages = realloc(messages, ++message_count * sizeof *messages);
    if (!messages) abort();
    messages[*number] = (Message){0};
  }
  messages[*number].live = true;
  messages[*number].count = 0;
  return &messages[*number];
}

static void append(Message *m, const uint64_t *words, size_t count) {
  if (m->count + count + 1 > m->room) {
    m->room = 2 * m->room + count + 64;
    m->words = realloc(m->words, m->room * sizeof *m->words);
    if (!m->words) abort();
  }
  memcpy(m->words + m->count, words, count * sizeof *words);
  m->count += count;
  m->words[m->count] = 0; /* ends a string that fills its last word */
}

/* One conversion such as `%-*.3lf` with its arguments; where the next argument is. */
static const uint64_t *print_conversion(FILE *out, int *printed, const char *conversion, const uint64_t *at,
                                        const uint64_t *end) {
  char kind = conversion[strlen(conversion) - 1];
  int stars[2] = {0, 0}, count = 0, now = 0;
  for (const char *c = conversion; *c; c++) {
    if (*c != '*') continue;
    if (count == 2 || at >= end) return end;
    stars[count++] = (int)*at++;
  }
  if (at >= end) return end;
#define PRINT(value)                                                                 \
  (count == 0   ? fprintf(out, conversion, value)                                    \
   : count == 1 ? fprintf(out, conversion, stars[0], value)                          \
                : fprintf(out, conversion, stars[0], stars[1], value))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  if (kind == 's') {
    const char *text = (const char *)at;
    size_t words = strnlen(text, (size_t)(end - at) * 8) / 8 + 1;
    now = PRINT(text);
    at += words;
  } else if (kind == 'n') {
    at++; /* there is no such place here */
  } else if (strchr("fFeEgGaA", kind)) {
    double value;
    memcpy(&value, at++, sizeof value);
    now = PRINT(value);
  } else if (kind == 'p') {
    now = PRINT((void *)(uintptr_t)*at);
    at++;
  } else {
    now = PRINT((unsigned long long)*at);
    at++;
  }
#pragma GCC diagnostic pop
#undef PRINT
  *printed += now > 0 ? now : 0;
  return at;
}

/* Arguments have eight bytes each, strings stand in place of their addresses. Returns what printf returns. */
static int print(FILE *out, const char *format, const uint64_t *at, const uint64_t *end) {
  int printed = 0;
  for (const char *c = format; *c;) {
    size_t plain = strcspn(c, "%");
    printed += (int)fwrite(c, 1, plain, out);
    c += plain;
    if (!*c) break;
    if (c[1] == '%') {
      printed += fputc('%', out) == '%';
      c += 2;
      continue;
    }
    size_t length = strcspn(c, "diouxXfFeEgGaAcspn") + 1;
    char conversion[64];
    if (at >= end || length >= sizeof conversion || !c[length - 1]) break;
    memcpy(conversion, c, length);
    conversion[length] = 0;
    at = print_conversion(out, &printed, conversion, at, end);
    c += length;
  }
  return printed;
}

/* ---- printf into a buffer that is printed when the kernel has ended (-mprintf-kind=buffered) --------------------- */

enum { PRINTF_BYTES = 4 << 20 };

uint64_t new_printf_buffer(void) {
  uint8_t *memory = map_guarded(PRINTF_BYTES);
  if (!memory) return 0;
  const uint32_t used_and_room[2] = {0, PRINTF_BYTES - 8};
  memcpy(memory, used_and_room, sizeof used_and_room);
  add_region((uint64_t)(uintptr_t)memory, PRINTF_BYTES, HOST_CALLS);
  return (uint64_t)(uintptr_t)memory;
}

/* Each record begins with its length in bytes and two flags; then the hash of its format, or the format itself. */
void print_buffered(const CodeObject *object, uint64_t printf_buffer) {
  enum { TO_ERRORS = 1, HASHED = 2, LENGTH_SHIFT = 2 };
  uint8_t *memory = (uint8_t *)(uintptr_t)printf_buffer, *at = memory + 8;
  const Region *region = region_of(printf_buffer);
  if (!region || region->base != printf_buffer || region->kind != HOST_CALLS) return; /* a kernel wrote to its arguments */
  uint32_t used, control;
  memcpy(&used, memory, sizeof used);
  if (used > PRINTF_BYTES - 8) used = PRINTF_BYTES - 8;
  for (uint8_t *end = at + used; end - at > 4;) {
    memcpy(&control, at, sizeof control);
    uint32_t length = control >> LENGTH_SHIFT;
    if (length < 4 || length > (uint32_t)(end - at)) break;
    size_t words = (length - 4) / 8;
    uint64_t *content = calloc(words + 1, sizeof *content);
    if (!content) abort();
    memcpy(content, at + 4, words * sizeof *content);
    FILE *out = control & TO_ERRORS ? stderr : stdout;
    const char *format = control & HASHED && words ? printf_format(object, content[0]) : (const char *)content;
    size_t skipped = control & HASHED ? 1 : strlen((const char *)content) / 8 + 1;
    flockfile(out);
    if (format) print(out, format, content + (skipped < words ? skipped : words), content + words);
    funlockfile(out);
    free(content);
    at += length;
  }
  remove_region(printf_buffer);
  unmap_guarded(memory, PRINTF_BYTES);
}

static void keep_error_line(const char *format, const uint64_t *at, const uint64_t *end) {
  char *text = NULL;
  size_t size = 0;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) return;
  print(memory, format, at, end);
  fclose(memory);
  snprintf(error_line, sizeof error_line, "%.*s", (int)strcspn(text, "\n"), text);
  free(text);
}

/* A part of a message of one lane; its first word says which, and whether it is the first or the last one. */
static bool take_message(uint64_t slot[8]) {
  enum { BEGIN = 1, END = 2, LENGTH_SHIFT = 5, NUMBER_SHIFT = 8 };
  uint64_t about = slot[0], number = about >> NUMBER_SHIFT;
  Message *m = about & BEGIN ? new_message(&number) : number < message_count ? &messages[number] : NULL;
  if (!m || !m->live) return false;
  slot[0] = (about & 0xfe & ~(uint64_t)BEGIN) | number << NUMBER_SHIFT;
  append(m, slot + 1, about >> LENGTH_SHIFT & 7);
  if (!(about & END)) return true;
  m->live = false;
  if (m->count < 2) {
    slot[0] = 0;
    return true;
  }
  bool to_errors = m->words[0] & 1;
  const char *format = (const char *)(m->words + 1);
  const uint64_t *at = m->words + 1 + strlen(format) / 8 + 1, *end = m->words + m->count;
  FILE *out = to_errors ? stderr : stdout;
  flockfile(out);
  slot[0] = (uint64_t)(int64_t)print(out, format, at, end);
  funlockfile(out);
  if (to_errors) keep_error_line(format, at, end);
  return true;
}

void last_error_line(char *text, size_t size) {
  pthread_mutex_lock(&lock);
  snprintf(text, size, "%s", error_line);
  pthread_mutex_unlock(&lock);
}
void forget_error_line(void) {
  pthread_mutex_lock(&lock);
  error_line[0] = 0;
  pthread_mutex_unlock(&lock);
}

/* ---- malloc and free --------------------------------------------------------------------------------------------- */

enum { HEAP_BYTES = 128 << 10, SLAB_BYTES = 2 << 20 };

uint64_t device_heap(void) {
  /* Zeros, but for the times at which a slab of each of 16 sizes and a list of slabs were last asked for: long ago,
   * since the emulator's clock begins at 0. */
  enum { LINE = 128, SIZES = 16, FIRST_TIME = 3 * SIZES * LINE, LAST_TIME = 5 * SIZES * LINE };
  const int64_t long_ago = -(1 << 20);
  pthread_mutex_lock(&lock);
  if (!heap && (heap = map_guarded(HEAP_BYTES))) {
    for (int at = FIRST_TIME; at < LAST_TIME; at += LINE) memcpy(heap + at, &long_ago, sizeof long_ago);
    add_region((uint64_t)(uintptr_t)heap, HEAP_BYTES, HOST_CALLS);
  }
  pthread_mutex_unlock(&lock);
  return (uint64_t)(uintptr_t)heap;
}

typedef struct Block {
  uint8_t *address, *mapped;
  size_t size, mapped_bytes;
  struct Block *next;
} Block;

static Block *blocks;
static size_t blocks_bytes;

/* Memory of the device; a slab, from which the kernel takes small blocks, is aligned to its size. */
static uint64_t allocate_block(size_t size, bool checked) {
  size_t most = (size_t)sysconf(_SC_PHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE);
  size_t bytes = size == SLAB_BYTES ? 2 * (size_t)SLAB_BYTES : size;
  if (!size || size > most || blocks_bytes > most - size) return 0;
  Block *block = malloc(sizeof *block);
  uint8_t *mapped = block ? map_guarded(bytes) : NULL;
  if (!mapped) {
    free(block);
    return 0;
  }
  uint8_t *address = mapped;
  if (size == SLAB_BYTES) address += -(uintptr_t)mapped & (SLAB_BYTES - 1);
  *block = (Block){address, mapped, size, bytes, blocks};
  blocks = block;
  blocks_bytes += size;
  add_region((uint64_t)(uintptr_t)address, size, DEVICE_HEAP);
  if (checked) mark_undefined((uint64_t)(uintptr_t)address, size, true);
  return (uint64_t)(uintptr_t)address;
}

static bool free_block(uint64_t address) {
  Block **link = &blocks;
  while (*link && (uint64_t)(uintptr_t)(*link)->address != address) link = &(*link)->next;
  Block *block = *link;
  if (!block) return false;
  *link = block->next;
  blocks_bytes -= block->size;
  remove_region(address);
  unmap_guarded(block->mapped, block->mapped_bytes);
  free(block);
  return true;
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

static void refuse(Wave *w, const char *format, unsigned long long what) {
  Finding f = {.kind = UNKNOWN_INSTRUCTION, .lane = -1, .other_wave = -1, .other_lane = -1};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(f.note, sizeof f.note, format, what);
#pragma GCC diagnostic pop
  report_and_stop(w, &f);
}

static void answer(Wave *w, uint32_t service, uint64_t slot[8]) {
  if (service == PRINTF) {
    if (!take_message(slot)) refuse(w, "a part of a printf without its beginning, message %llu", slot[0] >> 8);
  } else if (service == FUNCTION) {
    uint64_t results[2] = {0, 0};
    ((void (*)(uint64_t *, const uint64_t *))(uintptr_t)slot[0])(results, slot + 1);
    memcpy(slot, results, sizeof results);
  } else if (service == MEMORY_OF_DEVICE && !slot[0]) {
    slot[0] = allocate_block(slot[1], w->checks != NULL);
  } else if (service == MEMORY_OF_DEVICE) {
    if (!free_block(slot[0])) {
      Finding f = {.kind = OUT_OF_BOUNDS_WRITE, .lane = -1, .other_wave = -1, .other_lane = -1, .address = slot[0],
                   .has_address = true, .note = "free of what malloc has not returned"};
      report(w, &f);
    }
  } else {
    refuse(w, "a call of the host by service %llu", service);
  }
}

void answer_host_calls(Wave *w) {
  if (!buffer || !atomic_load(&buffer->ready)) return;
  pthread_mutex_lock(&lock);
  uint64_t oldest = 0;
  for (uint64_t at = atomic_exchange(&buffer->ready, 0); at;) { /* the stack has the youngest on top */
    Packet *packet = &buffer->packets[at & buffer->mask];
    uint64_t next = packet->next;
    packet->next = oldest;
    oldest = at;
    at = next;
  }
  for (uint64_t at = oldest, next; at; at = next) {
    Packet *packet = &buffer->packets[at & buffer->mask];
    next = packet->next;
    unsigned lane;
    FOR_LANES(lane, packet->active) answer(w, packet->service, buffer->payloads[at & buffer->mask][lane]);
    atomic_store(&packet->control, 0);
  }
  pthread_mutex_unlock(&lock);
}
