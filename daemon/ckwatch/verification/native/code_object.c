/* Code objects: from fat binaries to segments in memory, kernels with their arguments, variables, decoded instructions.
 *
 * Formats: "Code Object Metadata", "Kernel Descriptor", "Relocation Records" and "Target ID" of LLVM's AMDGPUUsage;
 * clang's documentation "ClangOffloadBundler" for bundles, clang/lib/Driver/OffloadBundler.cpp for compressed ones. */
#include "code_object.h"

#include "crash.h"
#include "paths.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef OBJDUMP
#define OBJDUMP "llvm-objdump"
#endif

extern char **environ;

typedef struct {
  char *name;
  uint64_t address, size;
} Variable;

typedef struct {
  uint64_t hash;
  char *text;
} Format;

struct CodeObject {
  Arch arch;
  uint8_t *image; /* the ELF file */
  size_t image_bytes;
  uint8_t *memory; /* its segments */
  uint64_t memory_bytes, first_address;
  uint64_t text_address, text_bytes; /* in the object's own addresses */
  Kernel *kernels;
  uint64_t *entries; /* of the kernels, in the object's own addresses */
  uint32_t kernel_count;
  Variable *variables;
  uint32_t variable_count;
  Format *formats;
  uint32_t format_count;
  Code *code;
  uint32_t copy;
  pthread_mutex_t lock;
};

static LoadError fail(LoadError error, char **problem, const char *format, ...) __attribute__((format(printf, 3, 4)));
static LoadError fail(LoadError error, char **problem, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(problem, format, arguments) < 0) *problem = NULL;
  va_end(arguments);
  return error;
}

/* ---- Memory with guards ------------------------------------------------------------------------------------------ */

enum { GUARD = 64 << 10, PAGE = 4096, LARGE = 1 << 26 };

static size_t whole_pages(size_t size) { return (size + PAGE - 1) & ~(size_t)(PAGE - 1); }

void *map_guarded(size_t size) {
  size_t inner = whole_pages(size ? size : 1);
  if (inner < size || inner + 2 * GUARD < inner) return NULL;
  uint8_t *all = mmap(NULL, inner + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return NULL;
  if (mprotect(all + GUARD, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(all, inner + 2 * GUARD);
    return NULL;
  }
  if (inner > LARGE) madvise(all, inner + 2 * GUARD, MADV_NOHUGEPAGE); /* of which a few places may be touched alone */
  return all + GUARD;
}

void unmap_guarded(void *memory, size_t size) {
  if (memory) munmap((uint8_t *)memory - GUARD, whole_pages(size ? size : 1) + 2 * GUARD);
}

/* ---- Archs ------------------------------------------------------------------------------------------------------- */

/* EF_AMDGPU_MACH of e_flags */
/* Processors by LLVM's names and ELF numbers, and as which their code is executed. The features of gfx1101 to gfx1103 and
 * gfx1200 in LLVM's AMDGPU.td are those of gfx1100 and gfx1201 but for the number of registers and what works around
 * mistakes of the hardware; gfx115x adds scalar floats and gfx1251 more instructions, whose names stop a wave where they
 * are not known. Generic code runs on all of its family. */
typedef struct {
  const char *name;
  uint32_t mach;
  Arch arch;
} Processor;
static const Processor processors[] = {
    {"gfx90a", 0x3f, GFX90A},         {"gfx942", 0x4c, GFX942},         {"gfx950", 0x4f, GFX950},
    {"gfx1100", 0x41, GFX1100},       {"gfx1201", 0x4e, GFX1201},       {"gfx1250", 0x49, GFX1250},
    {"gfx9-4-generic", 0x5f, GFX942}, {"gfx11-generic", 0x54, GFX1100}, {"gfx12-generic", 0x59, GFX1201},
    {"gfx1101", 0x46, GFX1100},       {"gfx1102", 0x47, GFX1100},       {"gfx1103", 0x44, GFX1100},
    {"gfx1150", 0x43, GFX1100},       {"gfx1151", 0x4a, GFX1100},       {"gfx1152", 0x55, GFX1100},
    {"gfx1153", 0x58, GFX1100},       {"gfx1200", 0x48, GFX1201},       {"gfx1251", 0x5a, GFX1250},
    {"gfx12-5-generic", 0x5b, GFX1250},
};
enum { PROCESSORS = sizeof processors / sizeof *processors };
static const Processor *device_processor; /* where it is another than the arch's own */

static const Processor *processor_named(const char *name) {
  size_t length = strcspn(name, ":");
  for (int n = 0; n < PROCESSORS; n++)
    if (strlen(processors[n].name) == length && strncmp(name, processors[n].name, length) == 0) return &processors[n];
  return NULL;
}
static const Processor *processor_of(Arch arch) {
  bool is_device = device_processor && device_processor->arch == arch;
  return is_device ? device_processor : processor_named(name_of_arch(arch));
}

bool arch_named(const char *name, Arch *arch) {
  const Processor *found = processor_named(name);
  if (found) *arch = found->arch;
  return found;
}
const char *name_device(const char *name) { return (device_processor = processor_named(name))->name; }

static bool is_generic_of(const Processor *one, Arch arch) {
  return strstr(one->name, "-generic") && (one->arch == arch || (one->arch == GFX942 && arch == GFX950));
}

/* Whether code for a target such as `gfx942:sramecc+:xnack-` runs on the device, which has sramecc on and xnack off;
 * more than one when it is made for just this one. */
static int fitness(const char *target, size_t length, Arch arch) {
  const char *name = processor_of(arch)->name;
  size_t processor = strlen(name);
  for (int n = 0; n < PROCESSORS; n++) /* of the family's generic code what has no features */
    if (is_generic_of(&processors[n], arch) && length == strlen(processors[n].name) &&
        strncmp(target, processors[n].name, length) == 0)
      return 1;
  if (length < processor || strncmp(target, name, processor) != 0) return 0;
  int fits = 2;
  for (const char *at = target + processor, *end = target + length; at < end; fits++) {
    size_t feature = 1;
    while (at + feature < end && at[feature] != ':') feature++;
    if (strncmp(at, ":xnack-", feature) != 0 && strncmp(at, ":sramecc+", feature) != 0) return 0;
    at += feature;
  }
  return fits;
}

/* ---- Bundles ----------------------------------------------------------------------------------------------------- */

static const char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
enum { BUNDLE_MAGIC_BYTES = sizeof bundle_magic - 1, FAT_BINARY_MAGIC = 0x48495046 };

static uint16_t u16_at(const uint8_t *at) { uint16_t value; memcpy(&value, at, sizeof value); return value; }
static uint32_t u32_at(const uint8_t *at) { uint32_t value; memcpy(&value, at, sizeof value); return value; }
static uint64_t u64_at(const uint8_t *at) { uint64_t value; memcpy(&value, at, sizeof value); return value; }

static void *function_of(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle ? dlsym(handle, name) : NULL;
}

static LoadError decompress(const uint8_t *image, size_t size, uint8_t **bundle, size_t *bundle_bytes, char **problem) {
  enum { ZLIB, ZSTD };
  if (size < 32) return fail(DAMAGED, problem, "the compressed fat binary is cut off");
  uint16_t version = u16_at(image + 4), method = u16_at(image + 6);
  size_t header, total = size, whole;
  if (version == 1) {
    header = 20;
    whole = u32_at(image + 8);
  } else if (version == 2) {
    header = 24;
    total = u32_at(image + 8);
    whole = u32_at(image + 12);
  } else if (version == 3) {
    header = 32;
    total = u64_at(image + 8);
    whole = u64_at(image + 16);
  } else {
    return fail(DAMAGED, problem, "a compressed fat binary of the unknown version %u", version);
  }
  if (total < header || total > size) return fail(DAMAGED, problem, "the fat binary is cut off");
  enum { MOST_EXPANDED = 1 << 15 }; /* bytes from one: a block of zstd's, 128 KiB of one value, takes four */
  if (whole / MOST_EXPANDED > total)
    return fail(DAMAGED, problem, "the compressed fat binary claims to hold %zu bytes, more than its %zu bytes can hold",
                whole, total);
  uint8_t *target = whole >> 32 ? NULL : malloc(whole + 1);
  if (!target) return fail(NO_MEMORY, problem, "no memory for a fat binary of %zu bytes", whole);
  bool good = false;
  const char *missing = NULL;
  if (method == ZSTD) {
    size_t (*expand)(void *, size_t, const void *, size_t) =
        (size_t(*)(void *, size_t, const void *, size_t))function_of("libzstd.so.1", "ZSTD_decompress");
    size_t (*extent)(const void *, size_t) =
        (size_t(*)(const void *, size_t))function_of("libzstd.so.1", "ZSTD_findFrameCompressedSize");
    if (!expand || !extent) missing = "libzstd.so.1";
    else {
      size_t frame = version == 1 ? extent(image + header, total - header) : total - header;
      good = expand(target, whole, image + header, frame) == whole;
    }
  } else if (method == ZLIB) {
    int (*expand)(uint8_t *, unsigned long *, const uint8_t *, unsigned long) =
        (int (*)(uint8_t *, unsigned long *, const uint8_t *, unsigned long))function_of("libz.so.1", "uncompress");
    unsigned long expanded = whole;
    if (!expand) missing = "libz.so.1";
    else good = expand(target, &expanded, image + header, total - header) == 0 && expanded == whole;
  }
  if (good) {
    *bundle = target;
    *bundle_bytes = whole;
    return LOADED;
  }
  free(target);
  if (missing) return fail(CANNOT_DECODE, problem, "the fat binary is compressed, and there is no %s", missing);
  return fail(DAMAGED, problem, "the compressed fat binary is damaged");
}

/* The entry of a bundle that fits the arch best. */
static LoadError choose_entry(const uint8_t *bundle, size_t size, Arch arch, const uint8_t **elf, size_t *elf_bytes,
                              char **problem) {
  static const char *const kinds[] = {"hipv4-amdgcn-amd-amdhsa-", "hip-amdgcn-amd-amdhsa-"};
  uint64_t count = u64_at(bundle + BUNDLE_MAGIC_BYTES), at = BUNDLE_MAGIC_BYTES + 8;
  int best = 0;
  char there[256] = "";
  for (uint64_t n = 0; n < count; n++) {
    if (at + 24 > size) return fail(DAMAGED, problem, "the fat binary is cut off");
    uint64_t offset = u64_at(bundle + at), bytes = u64_at(bundle + at + 8), length = u64_at(bundle + at + 16);
    const char *triple = (const char *)bundle + at + 24;
    at += 24 + length;
    if (length > 4096 || at > size || offset > size || bytes > size - offset)
      return fail(DAMAGED, problem, "the fat binary is damaged");
    for (int k = 0; k < 2; k++) {
      size_t prefix = strlen(kinds[k]);
      if (length <= prefix || strncmp(triple, kinds[k], prefix) != 0) continue;
      const char *target = triple + prefix;
      size_t target_length = length - prefix;
      if (*target == '-') target++, target_length--;
      size_t used = strlen(there);
      snprintf(there + used, sizeof there - used, "%s%.*s", used ? ", " : "", (int)target_length, target);
      int fits = fitness(target, target_length, arch);
      if (fits > best) {
        best = fits;
        *elf = bundle + offset;
        *elf_bytes = bytes;
      }
      break;
    }
  }
  if (best) return LOADED;
  return fail(NOT_FOR_THIS_ARCH, problem, "there is device code for %s, and none for %s", *there ? there : "no device",
              processor_of(arch)->name);
}

/* ---- ELF --------------------------------------------------------------------------------------------------------- */

static uint8_t *loaded(const CodeObject *object, uint64_t address, uint64_t size) {
  uint64_t offset = address - object->first_address;
  if (address < object->first_address || offset > object->memory_bytes) return NULL;
  if (size > object->memory_bytes - offset) return NULL;
  return object->memory + offset;
}
static uint64_t bias_of(const CodeObject *object) {
  return (uint64_t)(uintptr_t)object->memory - object->first_address;
}

static const Elf64_Ehdr *header_of(const CodeObject *object) { return (const Elf64_Ehdr *)object->image; }
static const Elf64_Shdr *section(const CodeObject *object, uint32_t index) {
  const Elf64_Ehdr *header = header_of(object);
  return (const Elf64_Shdr *)(object->image + header->e_shoff) + index;
}
static bool in_image(const CodeObject *object, uint64_t offset, uint64_t size) {
  return offset <= object->image_bytes && size <= object->image_bytes - offset;
}

/* A string of the string table in section `index`; "" when it is not in the file. */
static const char *string_at(const CodeObject *object, uint32_t index, uint32_t offset) {
  if (index >= header_of(object)->e_shnum) return "";
  const Elf64_Shdr *strings = section(object, index);
  if (!in_image(object, strings->sh_offset, strings->sh_size) || offset >= strings->sh_size) return "";
  const char *text = (const char *)object->image + strings->sh_offset + offset;
  return memchr(text, 0, strings->sh_size - offset) ? text : "";
}

static const Elf64_Shdr *section_of_type(const CodeObject *object, uint32_t type) {
  for (uint32_t n = 0; n < header_of(object)->e_shnum; n++) {
    const Elf64_Shdr *one = section(object, n);
    if (one->sh_type == type && in_image(object, one->sh_offset, one->sh_size) && one->sh_offset % 8 == 0) return one;
  }
  return NULL;
}

static const Elf64_Sym *symbols_of(const CodeObject *object, uint64_t *count, uint32_t *strings) {
  const Elf64_Shdr *table = section_of_type(object, SHT_DYNSYM);
  *count = table ? table->sh_size / sizeof(Elf64_Sym) : 0;
  *strings = table ? table->sh_link : 0;
  return table ? (const Elf64_Sym *)(object->image + table->sh_offset) : NULL;
}

static const Elf64_Sym *find_symbol(const CodeObject *object, const char *name) {
  uint64_t count;
  uint32_t strings;
  const Elf64_Sym *symbols = symbols_of(object, &count, &strings);
  for (uint64_t n = 0; n < count; n++)
    if (symbols[n].st_shndx != SHN_UNDEF && strcmp(string_at(object, strings, symbols[n].st_name), name) == 0)
      return &symbols[n];
  return NULL;
}

static LoadError check_header(const CodeObject *object, char **problem) {
  enum { MACHINE_AMDGPU = 224, XNACK = 0x300, XNACK_ON = 0x300, SRAMECC = 0xc00, SRAMECC_OFF = 0x800 };
  const Elf64_Ehdr *header = header_of(object);
  if (object->image_bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE_AMDGPU)
    return fail(DAMAGED, problem, "this is no code object of an AMD GPU");
  if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_shentsize != sizeof(Elf64_Shdr) ||
      header->e_phoff % 8 || header->e_shoff % 8)
    return fail(DAMAGED, problem, "the code object's tables of segments and sections have the wrong layout");
  if (!in_image(object, header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr)) ||
      !in_image(object, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
    return fail(DAMAGED, problem, "the code object is cut off");
  uint32_t mach = header->e_flags & 0xff;
  bool fits = mach == processor_of(object->arch)->mach;
  for (int n = 0; n < PROCESSORS; n++) fits |= mach == processors[n].mach && is_generic_of(&processors[n], object->arch);
  if (!fits || (header->e_flags & XNACK) == XNACK_ON || (header->e_flags & SRAMECC) == SRAMECC_OFF)
    return fail(NOT_FOR_THIS_ARCH, problem, "the code object is not for %s:sramecc+:xnack-", processor_of(object->arch)->name);
  return LOADED;
}

static const Elf64_Phdr *segment(const CodeObject *object, int n) {
  return (const Elf64_Phdr *)(object->image + header_of(object)->e_phoff) + n;
}

/* What variables of the device may take; a damaged address asks for more. */
#define MOST_MEMORY (64ull << 30)

static LoadError load_segments(CodeObject *object, char **problem) {
  const Elf64_Ehdr *header = header_of(object);
  uint64_t first = UINT64_MAX, last = 0;
  for (int n = 0; n < header->e_phnum; n++) {
    const Elf64_Phdr *one = segment(object, n);
    if (one->p_type != PT_LOAD) continue;
    if (!in_image(object, one->p_offset, one->p_filesz) || one->p_filesz > one->p_memsz ||
        one->p_vaddr + one->p_memsz < one->p_vaddr)
      return fail(DAMAGED, problem,
                  "segment %d of the code object (%llu bytes at %#llx of the file, %llu bytes at address %#llx) does not "
                  "fit the file or the address space", n, (unsigned long long)one->p_filesz,
                  (unsigned long long)one->p_offset, (unsigned long long)one->p_memsz, (unsigned long long)one->p_vaddr);
    if (one->p_vaddr < first) first = one->p_vaddr;
    if (one->p_vaddr + one->p_memsz > last) last = one->p_vaddr + one->p_memsz;
  }
  if (last <= first) return fail(DAMAGED, problem, "the code object has no segments");
  object->first_address = first & ~(uint64_t)(PAGE - 1);
  object->memory_bytes = last - object->first_address;
  if (object->memory_bytes > MOST_MEMORY)
    return fail(DAMAGED, problem, "the code object's segments span %llu bytes, more than the %llu bytes that it may have",
                (unsigned long long)object->memory_bytes, MOST_MEMORY);
  object->memory = map_guarded(object->memory_bytes + PAGE);
  if (!object->memory) return fail(NO_MEMORY, problem, "no memory for %llu bytes of device code",
                                   (unsigned long long)object->memory_bytes);
  for (int n = 0; n < header->e_phnum; n++) {
    const Elf64_Phdr *one = segment(object, n);
    if (one->p_type == PT_LOAD)
      memcpy(loaded(object, one->p_vaddr, one->p_memsz), object->image + one->p_offset, one->p_filesz);
  }
  return LOADED;
}

/* A compiler may widen scalar loads within their alignment, at most that of 16 bytes. */
static uint64_t widened(uint64_t size) { return (size + 15) & ~15ull; }

static void register_segments(const CodeObject *object, bool there) {
  for (int n = 0; n < header_of(object)->e_phnum; n++) {
    const Elf64_Phdr *one = segment(object, n);
    if (one->p_type != PT_LOAD || one->p_memsz == 0) continue;
    if (there) add_region(bias_of(object) + one->p_vaddr, widened(one->p_memsz), CODE_MEMORY);
    else remove_region(bias_of(object) + one->p_vaddr);
  }
}

static LoadError relocate(CodeObject *object, char **problem) {
  enum { ABS32_LO = 1, ABS32_HI, ABS64, REL32, REL64, ABS32, REL32_LO = 10, REL32_HI, RELATIVE64 = 13 };
  uint64_t symbol_count;
  uint32_t strings;
  const Elf64_Sym *symbols = symbols_of(object, &symbol_count, &strings);
  for (uint32_t s = 0; s < header_of(object)->e_shnum; s++) {
    const Elf64_Shdr *table = section(object, s);
    if (table->sh_type != SHT_RELA || !(table->sh_flags & SHF_ALLOC) ||
        !in_image(object, table->sh_offset, table->sh_size) || table->sh_offset % 8)
      continue;
    const Elf64_Rela *relocations = (const Elf64_Rela *)(object->image + table->sh_offset);
    for (uint64_t n = 0; n < table->sh_size / sizeof *relocations; n++) {
      const Elf64_Rela *one = &relocations[n];
      uint32_t type = (uint32_t)ELF64_R_TYPE(one->r_info), index = (uint32_t)ELF64_R_SYM(one->r_info);
      bool wide = type == ABS64 || type == REL64 || type == RELATIVE64;
      uint8_t *target = loaded(object, one->r_offset, wide ? 8 : 4);
      if (!target || index >= (symbol_count ? symbol_count : 1))
        return fail(DAMAGED, problem, "a relocation is damaged");
      uint64_t place = (uint64_t)(uintptr_t)target, value = (uint64_t)one->r_addend;
      if (type == RELATIVE64) {
        value += bias_of(object);
      } else if (index) {
        const Elf64_Sym *symbol = &symbols[index];
        if (symbol->st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
          return fail(SYMBOL_MISSING, problem, "the device code needs %s, which nothing defines",
                      string_at(object, strings, symbol->st_name));
        if (symbol->st_shndx == SHN_ABS) value += symbol->st_value;
        else if (symbol->st_shndx != SHN_UNDEF) value += symbol->st_value + bias_of(object);
      }
      switch (type) {
        case 0: continue;
        case ABS64: case RELATIVE64: break;
        case ABS32: case ABS32_LO: break;
        case ABS32_HI: value >>= 32; break;
        case REL64: case REL32: case REL32_LO: value -= place; break;
        case REL32_HI: value = (value - place) >> 32; break;
        default: return fail(DAMAGED, problem, "a relocation of the unknown type %u", type);
      }
      memcpy(target, &value, wide ? 8 : 4);
    }
  }
  return LOADED;
}

/* ---- Metadata: MessagePack --------------------------------------------------------------------------------------- */

typedef struct {
  const uint8_t *at, *end;
} Reader; /* `at` is NULL after anything that is not as it should be */

static uint64_t big_endian(Reader *r, size_t bytes) {
  uint64_t value = 0;
  if (!r->at || (size_t)(r->end - r->at) < bytes) {
    r->at = NULL;
    return 0;
  }
  for (size_t n = 0; n < bytes; n++) value = value << 8 | *r->at++;
  return value;
}

typedef enum { NOTHING_READ, MAP, ARRAY, STRING, NUMBER, OTHER } ItemKind;
typedef struct {
  ItemKind kind;
  uint64_t number; /* or the count of what follows */
  const char *text;
} Item;

static Item read_item(Reader *r) {
  uint8_t tag = (uint8_t)big_endian(r, 1);
  Item item = {OTHER, 0, NULL};
  if (!r->at) return (Item){NOTHING_READ, 0, NULL};
  if (tag < 0x80) item = (Item){NUMBER, tag, NULL};
  else if (tag < 0x90) item = (Item){MAP, tag & 15, NULL};
  else if (tag < 0xa0) item = (Item){ARRAY, tag & 15, NULL};
  else if (tag < 0xc0) item = (Item){STRING, tag & 31, NULL};
  else if (tag >= 0xe0) item = (Item){NUMBER, (uint64_t)(int64_t)(int8_t)tag, NULL};
  else switch (tag) {
    case 0xc0: break;
    case 0xc2: case 0xc3: item = (Item){NUMBER, tag & 1, NULL}; break;
    case 0xc4: case 0xc5: case 0xc6: item = (Item){STRING, big_endian(r, 1u << (tag - 0xc4)), NULL}; break;
    case 0xca: big_endian(r, 4); break;
    case 0xcb: big_endian(r, 8); break;
    case 0xcc: case 0xcd: case 0xce: case 0xcf: item = (Item){NUMBER, big_endian(r, 1u << (tag - 0xcc)), NULL}; break;
    case 0xd0: item = (Item){NUMBER, (uint64_t)(int64_t)(int8_t)big_endian(r, 1), NULL}; break;
    case 0xd1: item = (Item){NUMBER, (uint64_t)(int64_t)(int16_t)big_endian(r, 2), NULL}; break;
    case 0xd2: item = (Item){NUMBER, (uint64_t)(int64_t)(int32_t)big_endian(r, 4), NULL}; break;
    case 0xd3: item = (Item){NUMBER, big_endian(r, 8), NULL}; break;
    case 0xd9: case 0xda: case 0xdb: item = (Item){STRING, big_endian(r, 1u << (tag - 0xd9)), NULL}; break;
    case 0xdc: case 0xdd: item = (Item){ARRAY, big_endian(r, 2u << (tag - 0xdc)), NULL}; break;
    case 0xde: case 0xdf: item = (Item){MAP, big_endian(r, 2u << (tag - 0xde)), NULL}; break;
    default: r->at = NULL;
  }
  if (r->at && item.kind == STRING) {
    if ((uint64_t)(r->end - r->at) < item.number) {
      r->at = NULL;
    } else {
      item.text = (const char *)r->at;
      r->at += item.number;
    }
  }
  return r->at ? item : (Item){NOTHING_READ, 0, NULL};
}

static void skip_item(Reader *r, int depth) {
  Item item = read_item(r);
  if (depth > 16) r->at = NULL;
  uint64_t inner = item.kind == MAP ? item.number * 2 : item.kind == ARRAY ? item.number : 0;
  for (uint64_t n = 0; r->at && n < inner; n++) skip_item(r, depth + 1);
}

static bool is_text(const Item *item, const char *text) {
  return item->kind == STRING && item->number == strlen(text) && memcmp(item->text, text, item->number) == 0;
}

static ArgumentKind argument_kind(const Item *item) {
  static const struct {
    const char *name;
    ArgumentKind kind;
  } kinds[] = {
      {"hidden_block_count_x", HIDDEN_BLOCK_COUNT_X},     {"hidden_block_count_y", HIDDEN_BLOCK_COUNT_Y},
      {"hidden_block_count_z", HIDDEN_BLOCK_COUNT_Z},     {"hidden_group_size_x", HIDDEN_GROUP_SIZE_X},
      {"hidden_group_size_y", HIDDEN_GROUP_SIZE_Y},       {"hidden_group_size_z", HIDDEN_GROUP_SIZE_Z},
      {"hidden_remainder_x", HIDDEN_REMAINDER_X},         {"hidden_remainder_y", HIDDEN_REMAINDER_Y},
      {"hidden_remainder_z", HIDDEN_REMAINDER_Z},         {"hidden_global_offset_x", HIDDEN_GLOBAL_OFFSET_X},
      {"hidden_global_offset_y", HIDDEN_GLOBAL_OFFSET_Y}, {"hidden_global_offset_z", HIDDEN_GLOBAL_OFFSET_Z},
      {"hidden_grid_dims", HIDDEN_GRID_DIMS},             {"hidden_private_base", HIDDEN_PRIVATE_BASE},
      {"hidden_shared_base", HIDDEN_SHARED_BASE},         {"hidden_queue_ptr", HIDDEN_QUEUE_PTR},
      {"hidden_dynamic_lds_size", HIDDEN_DYNAMIC_LDS_SIZE}, {"dynamic_shared_pointer", DYNAMIC_SHARED_POINTER},
      {"hidden_multigrid_sync_arg", HIDDEN_GRID_SYNC},
      {"hidden_hostcall_buffer", HIDDEN_HOSTCALL_BUFFER},   {"hidden_heap_v1", HIDDEN_HEAP_V1},
      {"hidden_printf_buffer", HIDDEN_PRINTF_BUFFER},
  };
  for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++)
    if (is_text(item, kinds[n].name)) return kinds[n].kind;
  /* queues: there are none, and the arguments are 0. */
  return item->kind == STRING && item->number > 7 && memcmp(item->text, "hidden_", 7) == 0 ? HIDDEN_NONE : BY_VALUE;
}

static void read_arguments(Reader *r, Kernel *kernel) {
  Item list = read_item(r);
  if (list.kind != ARRAY || list.number > 4096) {
    r->at = NULL;
    return;
  }
  KernelArgument *arguments = calloc(list.number + 1, sizeof *arguments);
  kernel->arguments = arguments;
  for (uint64_t n = 0; r->at && n < list.number; n++) {
    Item map = read_item(r);
    if (map.kind != MAP) r->at = NULL;
    for (uint64_t field = 0; r->at && field < map.number; field++) {
      Item key = read_item(r);
      if (is_text(&key, ".offset")) arguments[n].offset = (uint32_t)read_item(r).number;
      else if (is_text(&key, ".size")) arguments[n].size = (uint32_t)read_item(r).number;
      else if (is_text(&key, ".value_kind")) {
        Item kind = read_item(r);
        arguments[n].kind = argument_kind(&kind);
      } else skip_item(r, 0);
    }
    kernel->argument_count++;
  }
}

/* Whether a device can run the kernel: the descriptor of one that LLVM compiled says nothing else. */
static LoadError check_descriptor(const CodeObject *object, const Kernel *kernel, char **problem) {
  enum { MOST_KERNARG = 1 << 20 };
  /* SCRATCH_WAVESIZE of gfx9 has 13 bits of 1 KiB, gfx11's 15 bits of 256 bytes, for 64 and 32 lanes. */
  uint32_t most_scratch = is_rdna(object->arch) ? 262136 : 131056;
  uint32_t accumulation = kernel->vgprs > kernel->accum_offset ? kernel->vgprs - kernel->accum_offset : 0;
  if (kernel->kernarg_bytes > MOST_KERNARG)
    return fail(DAMAGED, problem, "%s claims %u bytes of arguments, more than the %d that a kernel may have",
                kernel->name, kernel->kernarg_bytes, MOST_KERNARG);
  if (kernel->scratch_bytes > most_scratch)
    return fail(DAMAGED, problem, "%s needs %u bytes of scratch memory per work-item, more than the %u that %s has",
                kernel->name, kernel->scratch_bytes, most_scratch, name_of_arch(object->arch));
  if (accumulation >= 256 + 8) /* they are allocated by eights */
    return fail(DAMAGED, problem, "%s has %u registers, of which those from %u on are accumulation registers: %u, more "
                "than the 256 that there are", kernel->name, kernel->vgprs, kernel->accum_offset, accumulation);
  for (uint32_t n = 0; n < kernel->argument_count; n++) {
    const KernelArgument *argument = &kernel->arguments[n];
    if (argument->offset > kernel->kernarg_bytes || argument->size > kernel->kernarg_bytes - argument->offset)
      return fail(DAMAGED, problem, "argument %u of %s (%u bytes at %u) lies beyond the %u bytes of its arguments", n,
                  kernel->name, argument->size, argument->offset, kernel->kernarg_bytes);
  }
  return LOADED;
}

static LoadError add_kernel(CodeObject *object, const Item *symbol, Kernel *kernel, char **problem) {
  char *name = strndup(symbol->text ? symbol->text : "", symbol->number);
  const Elf64_Sym *found = find_symbol(object, name);
  const uint8_t *descriptor = found ? loaded(object, found->st_value, 64) : NULL;
  size_t length = strlen(name);
  if (!descriptor || length < 4) {
    LoadError error = fail(DAMAGED, problem, "the code object has no kernel descriptor %s", name);
    free(name);
    return error;
  }
  name[length - 3] = 0; /* .kd */
  kernel->name = name;
  kernel->object = object;
  kernel->lds_bytes = u32_at(descriptor);
  kernel->scratch_bytes = u32_at(descriptor + 4);
  kernel->kernarg_bytes = u32_at(descriptor + 8);
  kernel->rsrc3 = u32_at(descriptor + 44);
  kernel->rsrc1 = u32_at(descriptor + 48);
  kernel->rsrc2 = u32_at(descriptor + 52);
  kernel->properties = u16_at(descriptor + 56);
  kernel->preload = u16_at(descriptor + 58);
  kernel->vgprs = ((kernel->rsrc1 & 63) + 1) * 8;
  kernel->accum_offset = ((kernel->rsrc3 & 63) + 1) * 4;
  kernel->lanes = lanes_of_wave(object->arch);
  if (is_rdna(object->arch)) {
    enum { WAVEFRONT_SIZE_32 = 1 << 10 };
    if (!(kernel->properties & WAVEFRONT_SIZE_32)) kernel->lanes = 64;
    if (object->arch == GFX1250) kernel->vgprs *= 2; /* they are allocated by 16 */
    uint32_t most = object->arch == GFX1250 ? VECTOR_REGISTERS : 256;
    kernel->accum_offset = 256; /* there are none; what lies behind is of gfx1250 */
    if (kernel->vgprs > most) kernel->vgprs = most;
  }
  object->entries[kernel - object->kernels] = found->st_value + u64_at(descriptor + 16);
  LoadError error = check_descriptor(object, kernel, problem);
  /* Recursion and calls through pointers: what LLVM assumes for them (amdgpu-assume-external-call-stack-size). */
  enum { USES_DYNAMIC_STACK = 1 << 11, DYNAMIC_STACK_BYTES = 16384 };
  if (kernel->properties & USES_DYNAMIC_STACK) kernel->scratch_bytes += DYNAMIC_STACK_BYTES;
  return error;
}

static LoadError read_kernels(CodeObject *object, Reader *r, char **problem) {
  Item list = read_item(r);
  if (object->kernels) return fail(DAMAGED, problem, "the code object's metadata lists its kernels twice");
  if (list.kind != ARRAY || list.number > (uint64_t)(r->end - r->at))
    return fail(DAMAGED, problem, "the code object's metadata is damaged: amdhsa.kernels is no list of kernels");
  object->kernels = calloc(list.number + 1, sizeof *object->kernels);
  object->entries = calloc(list.number + 1, sizeof *object->entries);
  for (uint64_t n = 0; r->at && n < list.number; n++) {
    Kernel *kernel = &object->kernels[object->kernel_count++];
    Item map = read_item(r), symbol = {NOTHING_READ, 0, NULL};
    if (map.kind != MAP) r->at = NULL;
    kernel->max_workgroup = 1024;
    for (uint64_t field = 0; r->at && field < map.number; field++) {
      Item key = read_item(r);
      if (is_text(&key, ".args") && kernel->arguments)
        return fail(DAMAGED, problem, "the code object's metadata lists the arguments of a kernel twice");
      if (is_text(&key, ".args")) read_arguments(r, kernel);
      else if (is_text(&key, ".symbol")) symbol = read_item(r);
      else if (is_text(&key, ".max_flat_workgroup_size")) kernel->max_workgroup = (uint32_t)read_item(r).number;
      else skip_item(r, 0);
    }
    LoadError error = r->at ? add_kernel(object, &symbol, kernel, problem) : LOADED;
    if (error) return error;
  }
  return LOADED;
}

/* `0:0:HASH,FORMAT`, the hash in hexadecimal digits: what LLVM writes for HIP with -mprintf-kind=buffered. */
static void read_formats(CodeObject *object, Reader *r) {
  Item list = read_item(r);
  if (object->formats || list.kind != ARRAY || list.number > (uint64_t)(r->end - r->at)) {
    r->at = NULL;
    return;
  }
  object->formats = calloc(list.number + 1, sizeof *object->formats);
  for (uint64_t n = 0; r->at && n < list.number; n++) {
    Item one = read_item(r);
    char *text = one.kind == STRING ? strndup(one.text, one.number) : NULL, *format = text ? strchr(text, ',') : NULL;
    if (format && strncmp(text, "0:0:", 4) == 0)
      object->formats[object->format_count++] = (Format){strtoull(text + 4, NULL, 16), strdup(format + 1)};
    free(text);
  }
}

const char *printf_format(const CodeObject *object, uint64_t hash) {
  for (uint32_t n = 0; n < object->format_count; n++)
    if (object->formats[n].hash == hash) return object->formats[n].text;
  return NULL;
}

static LoadError read_metadata(CodeObject *object, char **problem) {
  enum { METADATA = 32 }; /* NT_AMDGPU_METADATA */
  for (int n = 0; n < header_of(object)->e_phnum; n++) {
    const Elf64_Phdr *one = segment(object, n);
    if (one->p_type != PT_NOTE || !in_image(object, one->p_offset, one->p_filesz)) continue;
    const uint8_t *at = object->image + one->p_offset, *end = at + one->p_filesz;
    while (end - at >= 12) {
      uint64_t name = (u32_at(at) + 3ull) & ~3ull, size = u32_at(at + 4), type = u32_at(at + 8);
      if ((uint64_t)(end - at) < 12 + name + size) break;
      if (type == METADATA && name == 8 && memcmp(at + 12, "AMDGPU", 7) == 0) {
        Reader reader = {at + 12 + name, at + 12 + name + size};
        Item map = read_item(&reader);
        LoadError error = LOADED;
        for (uint64_t field = 0; reader.at && !error && field < map.number; field++) {
          Item key = read_item(&reader);
          if (is_text(&key, "amdhsa.kernels")) error = read_kernels(object, &reader, problem);
          else if (is_text(&key, "amdhsa.printf")) read_formats(object, &reader);
          else skip_item(&reader, 0);
        }
        if (error) return error;
        return reader.at ? LOADED : fail(DAMAGED, problem, "the code object's metadata is damaged");
      }
      at += 12 + name + ((size + 3) & ~3ull);
      if (at > end) break;
    }
  }
  return LOADED; /* only functions and variables */
}

static void read_symbols(CodeObject *object) {
  uint64_t count;
  uint32_t strings;
  const Elf64_Sym *symbols = symbols_of(object, &count, &strings);
  object->variables = calloc(count + 1, sizeof *object->variables);
  for (uint64_t n = 0; n < count; n++) {
    const char *name = string_at(object, strings, symbols[n].st_name);
    if (symbols[n].st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbols[n].st_info) != STT_OBJECT || !*name) continue;
    if (!loaded(object, symbols[n].st_value, symbols[n].st_size)) continue;
    object->variables[object->variable_count++] =
        (Variable){strdup(name), bias_of(object) + symbols[n].st_value, symbols[n].st_size};
  }
  for (uint32_t n = 0; n < header_of(object)->e_shnum; n++)
    if (strcmp(string_at(object, header_of(object)->e_shstrndx, section(object, n)->sh_name), ".text") == 0) {
      object->text_address = section(object, n)->sh_addr;
      object->text_bytes = section(object, n)->sh_size;
    }
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* How many bytes can be read from here on. */
static size_t readable_bytes(const void *from) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return SIZE_MAX / 2;
  uint64_t at = (uint64_t)(uintptr_t)from, end = at;
  char line[4352];
  while (fgets(line, sizeof line, maps)) {
    unsigned long long first, last;
    char readable;
    if (sscanf(line, "%llx-%llx %c", &first, &last, &readable) == 3 && readable == 'r' && first <= end && end < last) end = last;
  }
  fclose(maps);
  return end - at;
}

/* The extent of an ELF file that nobody told, of `most` bytes: LLVM's linker puts the section headers or the last section
 * at the end. */
static size_t extent_of_elf(const uint8_t *image, size_t most) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  uint64_t end = header->e_shoff + (uint64_t)header->e_shnum * header->e_shentsize;
  if (header->e_shoff > most || end > most) return most;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
  for (int n = 0; n < header->e_shnum; n++)
    if (sections[n].sh_type != SHT_NOBITS && sections[n].sh_offset < most && sections[n].sh_offset + sections[n].sh_size > end)
      end = sections[n].sh_offset + sections[n].sh_size;
  return end < most ? end : most;
}

static LoadError load_elf(const uint8_t *image, size_t size, Arch arch, CodeObject **made, char **problem) {
  CodeObject *object = calloc(1, sizeof *object);
  pthread_mutex_init(&object->lock, NULL);
  object->arch = arch;
  object->image = malloc(size + 1);
  object->image_bytes = size;
  memcpy(object->image, image, size);
  LoadError error = check_header(object, problem);
  if (!error) error = load_segments(object, problem);
  if (!error) error = relocate(object, problem);
  if (!error) error = read_metadata(object, problem);
  if (error) {
    object->image_bytes = 0; /* no segments have been registered */
    free_code_object(object);
    return error;
  }
  read_symbols(object);
  register_segments(object, true);
  *made = object;
  return LOADED;
}

static LoadError load(const void *image, size_t size, Arch arch, CodeObject **object, char **problem) {
  const uint8_t *bytes = image, *elf = NULL;
  uint8_t *expanded = NULL;
  size_t elf_bytes = 0;
  *object = NULL;
  *problem = NULL;
  if (size >= 24 && u32_at(bytes) == FAT_BINARY_MAGIC) {
    memcpy(&bytes, bytes + 8, sizeof bytes);
    size = SIZE_MAX;
  }
  bool open_end = size == SIZE_MAX;
  if (open_end) size = readable_bytes(bytes);
  if (size < 64) return fail(DAMAGED, problem, "the device code is cut off");
  LoadError error = LOADED;
  if (memcmp(bytes, "CCOB", 4) == 0) {
    error = decompress(bytes, size, &expanded, &size, problem);
    bytes = expanded;
    open_end = false;
  }
  if (error) return error;
  if (size >= 64 && memcmp(bytes, bundle_magic, BUNDLE_MAGIC_BYTES) == 0) {
    error = choose_entry(bytes, size, arch, &elf, &elf_bytes, problem);
  } else if (memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    elf = bytes;
    elf_bytes = open_end ? extent_of_elf(bytes, size) : size;
  } else {
    error = fail(DAMAGED, problem, "this is neither a fat binary nor a code object");
  }
  if (!error) error = load_elf(elf, elf_bytes, arch, object, problem);
  free(expanded);
  return error;
}

LoadError load_code_object(const void *image, size_t size, Arch arch, CodeObject **object, char **problem) {
  tell_of_crashes();
  crash_place.doing = "loading device code";
  LoadError error = load(image, size, arch, object, problem);
  crash_place.doing = NULL;
  return error;
}

void free_code_object(CodeObject *object) {
  if (!object) return;
  if (object->image_bytes) register_segments(object, false);
  unmap_guarded(object->memory, object->memory_bytes + PAGE);
  for (uint32_t n = 0; n < object->kernel_count; n++) {
    free((char *)object->kernels[n].name);
    free((KernelArgument *)object->kernels[n].arguments);
    free_missing_waits(object->kernels[n].missing_waits);
  }
  for (uint32_t n = 0; n < object->variable_count; n++) free(object->variables[n].name);
  for (uint32_t n = 0; n < object->format_count; n++) free(object->formats[n].text);
  free_code(object->code);
  free(object->formats);
  free(object->variables);
  free(object->entries);
  free(object->kernels);
  free(object->image);
  pthread_mutex_destroy(&object->lock);
  free(object);
}

Kernel *find_kernel(CodeObject *object, const char *name) {
  for (uint32_t n = 0; n < object->kernel_count; n++)
    if (strcmp(object->kernels[n].name, name) == 0) return &object->kernels[n];
  return NULL;
}

uint32_t kernel_count(const CodeObject *object) { return object->kernel_count; }

uint64_t find_variable(const CodeObject *object, const char *name, uint64_t *size) {
  for (uint32_t n = 0; n < object->variable_count; n++)
    if (strcmp(object->variables[n].name, name) == 0) {
      if (size) *size = object->variables[n].size;
      return object->variables[n].address;
    }
  return 0;
}

/* ---- Instructions ------------------------------------------------------------------------------------------------ */

/* A file that only this process and the disassembler see. */
static int private_file(const uint8_t *bytes, size_t size) {
  int file = memfd_create("code object", MFD_CLOEXEC);
  if (file < 0) {
    const char *told = getenv("TMPDIR"), *folder = told && *told ? told : "/tmp";
    char path[4096];
    snprintf(path, sizeof path, "%s/ckwatch-code-XXXXXX", folder);
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0) unlink(path);
  }
  for (size_t written = 0; file >= 0 && written < size;) {
    ssize_t now = write(file, bytes + written, size - written);
    if (now <= 0 && errno != EINTR) {
      close(file);
      return -1;
    }
    written += now > 0 ? (size_t)now : 0;
  }
  return file;
}

typedef struct {
  char *text;
  size_t size, capacity;
} Text;

static bool read_some(int file, Text *text) {
  if (text->size + 65536 > text->capacity) {
    text->capacity = text->capacity * 2 + (1 << 20);
    text->text = realloc(text->text, text->capacity);
  }
  ssize_t now = read(file, text->text + text->size, text->capacity - text->size - 1);
  if (now < 0 && errno == EINTR) return true;
  if (now > 0) text->size += (size_t)now;
  text->text[text->size] = 0;
  return now > 0;
}

/* What the disassembler prints of the file, with this option if it is not NULL; NULL and a message on failure. */
static char *disassemble(int file, const char *option, char **problem) {
  const char *told = getenv("CKWATCH_EMULATOR_OBJDUMP"), *program = told && *told ? told : OBJDUMP;
  enum { CODE_FILE = 3 };
  char *const arguments[] = {(char *)program, "--disassemble", "--section=.text", "/proc/self/fd/3", (char *)option, NULL};
  int out[2], errors[2];
  if (pipe2(out, O_CLOEXEC) != 0) return NULL;
  if (pipe2(errors, O_CLOEXEC) != 0) {
    close(out[0]), close(out[1]);
    return NULL;
  }
  /* dup2 to the same number would leave it closed at exec */
  int copy = fcntl(file, F_DUPFD_CLOEXEC, CODE_FILE + 1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
  posix_spawn_file_actions_adddup2(&actions, copy, CODE_FILE);
  pid_t child;
  int error = posix_spawnp(&child, program, &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(copy);
  close(out[1]), close(errors[1]);
  Text printed = {0}, said = {0};
  if (error) {
    fail(CANNOT_DECODE, problem, "%s cannot be started: %s", program, strerror(error));
  } else {
    struct pollfd ends[] = {{out[0], POLLIN, 0}, {errors[0], POLLIN, 0}};
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
      if (poll(ends, 2, -1) < 0 && errno != EINTR) break;
      for (int n = 0; n < 2; n++)
        if (ends[n].fd >= 0 && ends[n].revents && !read_some(ends[n].fd, n ? &said : &printed)) ends[n].fd = -1;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fail(CANNOT_DECODE, problem, "%s failed: %.300s", program, said.text ? said.text : "it printed nothing");
      free(printed.text);
      printed.text = NULL;
    } else if (!printed.text) {
      fail(CANNOT_DECODE, problem, "%s printed nothing", program);
    }
  }
  close(out[0]), close(errors[0]);
  free(said.text);
  return printed.text;
}

/* Nothing may go on into what pads a function to the next one. */
static void end_functions(const CodeObject *object, Code *code) {
  uint64_t count;
  uint32_t strings;
  const Elf64_Sym *symbols = symbols_of(object, &count, &strings);
  for (uint64_t n = 0; n < count; n++) {
    if (ELF64_ST_TYPE(symbols[n].st_info) != STT_FUNC || !symbols[n].st_size) continue;
    int32_t at = instruction_at(code, symbols[n].st_value + symbols[n].st_size - code->text_address);
    if (at <= 0 || strcmp(code->instructions[at].text, "s_nop 0") != 0) continue;
    code->instructions[at].row = &end_row;
    code->instructions[at].execute = end_row.execute;
  }
}

static Code *decode_object(CodeObject *object, char **problem) {
  for (uint32_t n = 1; n < object->kernel_count; n++)
    if (object->kernels[n].lanes != object->kernels[0].lanes) {
      fail(CANNOT_DECODE, problem, "%s and %s have waves of 32 and of 64 lanes in one code object, which is not emulated",
           object->kernels[0].name, object->kernels[n].name);
      return NULL;
    }
  int file = private_file(object->image, object->image_bytes);
  if (file < 0) {
    fail(CANNOT_DECODE, problem, "no temporary file for the disassembler: %s", strerror(errno));
    return NULL;
  }
  /* What is not printed of an operand of all lanes, such as `vcc`, is as wide as a wave. */
  static const char *const options[2][2] = {{NULL, "--mattr=+real-true16"}, {"--mattr=+wavefrontsize64", "--mattr=+wavefrontsize64,+real-true16"}};
  const bool is_wide = object->kernel_count && object->kernels[0].lanes > lanes_of_wave(object->arch);
  char *text = disassemble(file, options[is_wide][0], problem);
  if (text && object->arch >= GFX1100 && strstr(text, "\t.long")) {
    /* LLVM from 23 on moves halves of registers, which LLVM 22 knows if it is told to */
    free(text);
    text = disassemble(file, options[is_wide][1], problem);
  }
  close(file);
  if (!text) return NULL;
  Code *code = decode(text, object->arch, problem);
  free(text);
  if (!code) return NULL;
  for (uint32_t n = 0; n < object->kernel_count; n++) {
    int32_t entry = instruction_at(code, object->entries[n] - code->text_address);
    if (entry < 0) {
      fail(CANNOT_DECODE, problem, "there is no code where the kernel %s begins", object->kernels[n].name);
      free_code(code);
      return NULL;
    }
    object->kernels[n].entry = (uint32_t)entry;
  }
  end_functions(object, code);
  code->own_text_address = code->text_address;
  code->text_address += bias_of(object);
  return code;
}

const Code *code_of(CodeObject *object, char **problem) {
  *problem = NULL;
  pthread_mutex_lock(&object->lock);
  crash_place.doing = "decoding device code";
  if (!object->code) object->code = decode_object(object, problem);
  crash_place.doing = NULL;
  const Code *code = object->code;
  pthread_mutex_unlock(&object->lock);
  return code;
}

uint32_t saved_copy(CodeObject *object) {
  static _Atomic uint32_t copies;
  const char *folder = getenv("CKWATCH_EMULATOR_OBJECTS");
  if (!folder || !*folder) return 0;
  pthread_mutex_lock(&object->lock);
  if (!object->copy) {
    char path[4096];
    uint32_t number = ++copies;
    snprintf(path, sizeof path, "%s/%u.hsaco", folder, number);
    FILE *file = fopen(path, "wbe");
    if (file && fwrite(object->image, 1, object->image_bytes, file) == object->image_bytes) object->copy = number;
    if (file && fclose(file) != 0) object->copy = 0;
  }
  uint32_t copy = object->copy;
  pthread_mutex_unlock(&object->lock);
  return copy;
}
