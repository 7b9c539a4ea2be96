/* The rows of all tables by their names. */
#include <pthread.h>
#include <string.h>

#include "machine.h"

enum { BUCKETS = 8192 };
static const Row *buckets[BUCKETS];
static pthread_once_t indexed = PTHREAD_ONCE_INIT;

static uint32_t hash_of(const char *name, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
  return hash;
}

static void index_rows(void) {
  const Row *const tables[] = {vector_rows, scalar_rows,        matrix_rows, global_memory_rows,
                               lds_rows,    scalar_memory_rows};
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const Row *row = tables[t]; row->name; row++) {
      uint32_t at = hash_of(row->name, strlen(row->name)) % BUCKETS;
      while (buckets[at] && strcmp(buckets[at]->name, row->name) != 0) at = (at + 1) % BUCKETS;
      if (!buckets[at]) buckets[at] = row;
    }
  classify_rows(vector_rows);
  classify_rows(scalar_rows);
  classify_rows(matrix_rows);
  classify_rows(rdna_rows);
  classify_rows(rdna4_rows);
  classify_rows(wmma_rows);
}

static const Row *row_named(const char *name, size_t length) {
  for (uint32_t at = hash_of(name, length) % BUCKETS; buckets[at]; at = (at + 1) % BUCKETS)
    if (strncmp(buckets[at]->name, name, length) == 0 && !buckets[at]->name[length]) return buckets[at];
  return NULL;
}

const Row *find_row(const char *name) {
  static const char *const suffixes[] = {"_e32", "_e64", "_dpp", "_sdwa"};
  pthread_once(&indexed, index_rows);
  size_t length = strlen(name);
  const Row *row = row_named(name, length);
  for (size_t s = 0; !row && s < sizeof suffixes / sizeof *suffixes; s++) {
    size_t cut = strlen(suffixes[s]);
    if (length > cut && strcmp(name + length - cut, suffixes[s]) == 0) row = row_named(name, length - cut);
  }
  return row;
}
