/* The state of AMD compute units that execute code objects on the CPU, and the interfaces between its parts.
 *
 *   hip.c            the functions of libamdhip64            decode.c         text of the disassembler → Instruction
 *   dispatch.c       workgroups on threads, barriers         rdna_names.c     RDNA's names
 *   streams.c        what waits on streams                   rows.c           all rows by name
 *   code_object.c    ELF, notes, kernel descriptors
 *
 *   vector.c         VALU                                    global_memory.c  buffer, global, flat, scratch
 *   scalar.c         SALU, branches, barriers, waits         lds.c            LDS, permutations
 *   matrix.c         MFMA                                    scalar_memory.c  SMEM
 *   rdna.c           RDNA's own                              atomics.c        what atomics leave in memory
 *   rdna4.c          gfx12's own                             wmma.c           WMMA and SWMMAC
 *   steps.c          instructions with operands resolved
 *
 *   checks.c         undefined values, waits                 access.c         lanes ↔ places in memory
 *   ordering.c       races between workgroups                code.c           decoded code, and what leaves it
 *   lds_checks.c     races in LDS                            paths.c          waits on paths that are not executed
 *   counting.c       what each instruction costs, in counts
 *   findings.c       what was found, as JSON                 values.c         operands with SDWA and DPP
 *   regions.c        allocated memory                        crash.c          what is said when the emulator crashes
 *   host_calls.c     printf, assertions, malloc of kernels
 *   lanes.h          sixteen lanes at a time
 *
 * A file calls those below it, and none of them calls it.
 *
 * Sources of semantics: AMD's "Instinct MI200 / MI300 / CDNA4 Instruction Set Architecture" documents, and LLVM's
 * AMDGPU backend (operands, encodings, AMDGPUUsage) where these are silent.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "regions.h"

#define NO_INLINE __attribute__((noinline))

#define LANES 64
#define FOR_LANES(lane, lanes) \
  for (uint64_t rest_ = (lanes); rest_ && ((lane) = (unsigned)__builtin_ctzll(rest_), true); rest_ &= rest_ - 1)
#define VECTOR_REGISTERS 512 /* v0…v255, then a0…a255 */
enum { SPARE_OF_PAIRS = VECTOR_REGISTERS - 1 }; /* RDNA has no a0…a255 */
#define MAX_WAVES 32         /* of one workgroup; 1024 work-items are 16 waves of 64, or 32 of 32 */

typedef enum { GFX90A, GFX942, GFX950, GFX1100, GFX1201, GFX1250 } Arch;

/* What differs between architectures. */
typedef struct {
  const char *name;
  uint8_t lanes;              /* of a wave; all loops go over 64, of which RDNA never activates the upper half */
  uint8_t most_outstanding[2]; /* what vmcnt and lgkmcnt can count; an operation beyond waits until it can be counted */
  const char *counters[3]; /* of vector memory, of LDS, of scalar memory */
} ArchFacts;
extern const ArchFacts arch_facts[];
static inline const char *name_of_arch(Arch arch) { return arch_facts[arch].name; }
static inline uint32_t lanes_of_wave(Arch arch) { return arch_facts[arch].lanes; }
static inline bool is_rdna(Arch arch) { return arch >= GFX1100; }
static inline bool is_gfx12(Arch arch) { return arch >= GFX1201; }
/* Loads cannot write a register in part (LLVM: SRAMECC, which is always on, and d16PreservesUnusedBits). */
static inline bool has_register_ecc(Arch arch) { return !is_rdna(arch) || arch == GFX1250; }

/* ---- Scalar registers: index into Wave.s ------------------------------------------------------------------------ */
enum {
  FLAT_SCRATCH = 102, /* pair */
  XNACK_MASK = 104,   /* pair */
  VCC = 106,          /* pair */
  TTMP0 = 108,
  M0 = 124,
  NULL_REGISTER = 125, /* reads 0, writes are lost */
  EXEC = 126,          /* pair */
  SCC = 128,           /* 0 or 1 */
  VCCZ = 129,          /* computed when read, never stored */
  EXECZ = 130,         /* the same */
  SHARED_BASE = 132,   /* pair */
  SHARED_LIMIT = 134,  /* pair */
  PRIVATE_BASE = 136,  /* pair */
  PRIVATE_LIMIT = 138, /* pair */
  SCALAR_REGISTERS = 160,
};

/* ---- Instructions ---------------------------------------------------------------------------------------------- */
typedef enum { NO_OPERAND, VECTOR, SCALAR, LITERAL } OperandKind;

enum { WHOLE_REGISTER, LOWER_HALF, UPPER_HALF, BOTH_HALVES };
/* SDWA selections. */
enum { DWORD, BYTE_0, BYTE_1, BYTE_2, BYTE_3, WORD_0, WORD_1 };

typedef struct {
  uint8_t kind;
  uint8_t count; /* registers in a row */
  bool neg, abs, sext;
  bool plain;     /* a vector register without any modifier, SDWA or DPP: its row can be read as it is */
  uint8_t select; /* SDWA */
  uint8_t half;   /* `v0.l` and `v0.h` of gfx1100 */
  uint8_t spared; /* the half that is neither read nor written, where choose_halves has found one */
  bool is_float;  /* a literal written as 1.0 or 0.15915494: `real`; otherwise `bits`, sign-extended if written so */
  bool is_hex;    /* a literal written as 0x…: its 32 bits are the upper ones of an f64 */
  uint16_t index; /* of the first register; AGPRs begin at 256 */
  int64_t bits;
  double real;
} Operand;

typedef struct Wave Wave;
typedef struct Instruction Instruction;
typedef void Execute(Wave *, const Instruction *);
typedef struct Step Step; /* steps.h */
typedef void Perform(Wave *, const Step *);

/* What the checks have to know of an instruction. */
enum {
  READS_RESULT = 1 << 0,  /* operand 0 is read as well (v_fmac, d16 loads, v_writelane) */
  MOVES = 1 << 1,         /* copies bits: undefined bits travel with them; others make a whole lane undefined */
  WRITES_SCC = 1 << 2,
  READS_SCC = 1 << 3,
  READS_VCC = 1 << 4,     /* though it is no operand */
  WRITES_VCC = 1 << 5,    /* though it is no operand */
  IS_BRANCH = 1 << 6,     /* what it depends on decides where a wave goes */
  IS_MEMORY = 1 << 7,     /* it calls the checks itself */
  IS_MATRIX = 1 << 8,
  IGNORES_EXEC = 1 << 9,
  ALL_RESULTS_READ = 1 << 10, /* v_swap, v_permlane32_swap: operands 0 and 1 are read and written */
  COPIES_SCALAR = 1 << 11,    /* v_readlane and the like: a scalar result from vector sources */
  ENDS_BLOCK = 1 << 12,       /* s_branch, s_setpc, s_endpgm */
  OPERANDS_IN_ENCODING = 1 << 13, /* what is printed behind the name is not parsed */
};

/* What a result is, for tracing non-finite values. */
typedef enum { PLAIN_BITS, RESULT_F32, RESULT_F16, RESULT_BF16, RESULT_F64, RESULT_PACKED_F16, RESULT_PACKED_F32, RESULT_PACKED_BF16 } ResultType;

enum { KEEPS_UPPER_HALF = 1, CLEARS_UPPER_HALF }; /* Row.detail of results of 16 bits; RDNA keeps every upper half */

/* One row of the tables of instructions. `name` has no _e32, _e64, _dpp, _sdwa. */
typedef struct {
  const char *name;
  Execute *execute;
  uint8_t results; /* the first operands that are written */
  uint16_t flags;
  uint8_t result_type;
  uint32_t detail; /* for the handler: width in bytes, a matrix shape's index, … */
  Perform *perform; /* the same for operands without modifiers; NULL where there is only `execute` */
} Row;

enum { LOOKED_AT = 4 };
enum { MAX_OPERANDS = 7 };

struct Instruction {
  Execute *execute;
  const Row *row;
  uint64_t looked_at[LOOKED_AT]; /* registers that the checks have to look at, bits of one word of 64 each, */
  uint8_t word[LOOKED_AT];       /* vectors first */
  uint8_t operand_count;
  uint8_t cost; /* what it counts for the limit of instructions, about as its time */
  Operand operand[MAX_OPERANDS]; /* as the disassembler prints them, results first */

  /* Modifiers. Lists of bits are by source: bit 0 is the first source; for packed ones `op_sel_hi` is -1 when absent. */
  uint8_t op_sel, op_sel_hi, neg_lo, neg_hi;
  bool has_op_sel_hi, clamp, sdwa, dpp, bound_ctrl, preserve, sign_extend_unused;
  uint8_t omod;       /* 0 none, 1 mul:2, 2 mul:4, 3 div:2 */
  uint8_t dst_select; /* SDWA */
  uint8_t dst_unused; /* 0 pad, 1 sign-extend, 2 preserve */
  int16_t dpp_control; /* the nine bits of DPP_CTRL in the ISA documents: 0x00…0xff quad_perm, 0x101… row_shl, … */
  uint8_t row_mask, bank_mask;
  bool fetch_inactive; /* DPP of gfx1100 */
  bool half_result;    /* the other half of the register is kept */
  bool direct; /* nothing of the above changes what a vector instruction computes of its operands, or writes */
  uint8_t cbsz, abid, blgp;  /* MFMA; for f8f6f4 the formats of A and B are cbsz and blgp */
  int32_t offset, offset1;   /* memory: `offset:`, `offset0:`/`offset1:` */
  bool offen, idxen, glc, lds, scale, sc0, sc1, nt;
  uint8_t format;

  uint32_t address; /* bytes from the beginning of .text */
  uint32_t size;    /* bytes */
  int32_t target;   /* index of the instruction that a branch leads to; -1 where there is none */
  const char *text; /* as disassembled, for messages */
  Instruction *parts; /* of a pair of gfx1100, in the order in which they are executed */
  uint8_t part_count;

  /* Register use, filled in by decode.c for the checks: operands, in printed order, that are read and written. */
  uint8_t reads, writes; /* bits by operand */
};

/* ---- Code ------------------------------------------------------------------------------------------------------- */
/* Instructions from one on that follow each other and do nothing that the checks have to see but use registers, none of
 * which one of them loads. */
enum { REGISTER_WORDS = VECTOR_REGISTERS / 64 + 4 };
typedef struct {
  uint64_t registers[REGISTER_WORDS]; /* bits of all that they read or write, as in looked_at: */
  uint8_t word[REGISTER_WORDS];       /* of the first `words` the others, of which none is 0 */
  uint8_t words;
  bool branches; /* the last one may lead elsewhere */
  uint32_t length, cost;
} Run;

typedef struct {
  Instruction *instructions; /* in the order of addresses */
  Run *runs;   /* of each instruction */
  Step *steps; /* the same */
  uint32_t count;
  uint32_t text_bytes;
  uint64_t text_address; /* where .text is in the code object's own addresses; once loaded, where it is in memory */
  uint64_t own_text_address; /* in the code object's own addresses, loaded or not */
  char *texts;           /* what Instruction.text points into */
} Code;

/* The index of the instruction at an address (bytes from the beginning of .text); -1 if there is none. */
int32_t instruction_at(const Code *code, uint64_t address);

/* Parses what `llvm-objdump --disassemble` printed. Returns NULL and a message in *problem (to be freed) on text that
 * cannot be parsed. An instruction that no table has gets a row whose `execute` reports it when it is reached. */
Code *decode(const char *disassembly, Arch arch, char **problem);
void free_code(Code *code);
const Row *find_row(const char *name);
extern const Row vector_rows[], scalar_rows[], matrix_rows[], global_memory_rows[], lds_rows[],
    scalar_memory_rows[]; /* each ends with a row without a name */
extern const Row unknown_row, end_row; /* end_row: nothing that is executed may go on here */

/* Reports that a wave leaves the code by `i`, and stops it. */
void leave_code(Wave *w, const Instruction *i, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cannot_execute(Wave *w, const Instruction *i, const char *why); /* reports it, and stops the wave */
void execute_nothing(Wave *w, const Instruction *i);

/* RDNA, in rdna_names.c: the row for a name as it is printed; changes of parsed operands to what the rows of gfx9 expect;
 * an order for the two parts of a pair. The latter two are false for what is not understood. */
const Row *find_rdna_row(const char *printed);
bool adapt_to_rdna(const char *name, Instruction *i);
bool order_pair(Instruction parts[3], uint8_t *count);
extern const Row rdna_rows[], rdna4_rows[], wmma_rows[], pair_row;

/* ---- A launch ---------------------------------------------------------------------------------------------------- */
typedef struct CodeObject CodeObject;
typedef struct Ordering Ordering;     /* ordering.c */
typedef struct GroupOrder GroupOrder;
typedef struct InstructionCounts InstructionCounts; /* counting.h */

typedef struct {
  const char *name; /* the symbol, mangled, without .kd */
  CodeObject *object;
  uint32_t entry; /* index of the first instruction */
  uint32_t kernarg_bytes, lds_bytes, scratch_bytes; /* fixed sizes; scratch is per work-item */
  uint32_t vgprs, accum_offset; /* AGPR 0 is VGPR accum_offset of the unified file */
  uint32_t max_workgroup; /* work-items */
  uint32_t lanes;         /* of a wave */
  uint32_t rsrc1, rsrc2, rsrc3;
  uint16_t properties, preload;
  const struct KernelArgument *arguments;
  uint32_t argument_count;
  struct MissingWaits *missing_waits; /* of paths.c; NULL until they are looked for */
} Kernel;

typedef struct {
  uint32_t workgroups; /* how many of them are computed; UINT32_MAX for all */
  uint64_t seed;       /* which ones, when not all */
  bool is_sample;      /* of a kernel of which nothing is known; see sampling.c */
} Choice;

typedef struct {
  const Kernel *kernel;
  const Code *code;
  Arch arch;
  uint32_t grid[3], block[3]; /* workgroups; work-items of one */
  uint32_t dynamic_lds;
  uint8_t *kernarg;
  bool checked, traced, judged, profiled, is_cooperative; /* what is profiled is not checked; see counting.c */
  bool sampled, partial, watched; /* see sampling.c; only some workgroups are executed; a place's writer is asked for */
  uint64_t instruction_limit; /* of one workgroup, by their costs */
  _Atomic uint64_t executed;  /* instructions of all waves */
  _Atomic uint64_t counted;   /* the same by their costs */
  _Atomic uint64_t progress;  /* workgroups that have begun and that have ended */
  _Atomic bool stop;          /* after an unknown instruction, a trap, a workgroup that does not end */
  uint32_t waves;             /* of one workgroup */
  uint32_t lanes;             /* of one wave */
  Ordering *ordering;         /* NULL when not checked, or of one workgroup */
  const uint8_t *packet;      /* the dispatch packet (hsa_kernel_dispatch_packet_t); NULL when the kernel wants none */
  const uint8_t *queue;       /* amd_queue_t; the same */
  const uint8_t *grid_sync;   /* the barrier of a cooperative launch; the same */
  uint64_t dispatch_id;
} Launch;

/* ---- A workgroup and its waves ---------------------------------------------------------------------------------- */
typedef enum { RUNNING, AT_BARRIER, ENDED, STOPPED } WaveState;

typedef struct LdsShadow LdsShadow; /* lds_checks.c */
typedef struct WaveChecks WaveChecks; /* checks.c */

typedef struct {
  Launch *launch;
  uint32_t id[3];
  uint8_t *lds;
  uint32_t lds_bytes; /* allocated: fixed + dynamic */
  Wave *waves[MAX_WAVES];
  uint32_t wave_count;
  LdsShadow *lds_shadow; /* NULL when not checked */
  GroupOrder *order;     /* NULL when the launch has no ordering */
  InstructionCounts *counts; /* of the thread; NULL when not counted */
  uint32_t signals;      /* waves of gfx12 that have reached the barrier */
  uint64_t executed;     /* instructions that count for the limit */
  uint64_t progress;     /* of the launch, at the end of its last turn */
  uint16_t writer;       /* among those of a sample, from 1 on */
} Workgroup;

/* Bits of MODE. */
enum { DENORMAL_SOURCES = 4, DENORMAL_RESULTS, DENORMAL_SOURCES_16_64, DENORMAL_RESULTS_16_64, IEEE_MODE = 9 };

struct Wave {
  alignas(64) uint32_t v[VECTOR_REGISTERS][LANES];
  alignas(64) uint32_t s[SCALAR_REGISTERS];
  uint32_t next; /* the index of the instruction to execute next; already behind the one that is executed */
  WaveState state;
  uint32_t id;  /* in its workgroup */
  uint64_t live; /* the lanes that are work-items */
  uint32_t mode; /* MODE register */
  Workgroup *group;
  Launch *launch;
  const Code *code;
  uint8_t *scratch;          /* of the whole wave: dword d of lane l at ((d * 64) + l) * 4 */
  uint32_t scratch_bytes;    /* of one lane */
  uint64_t executed;
  uint64_t counted; /* the same by their costs */
  WaveChecks *checks; /* NULL when not checked */
  const Region *last_region;
  bool shares; /* it has accessed memory that others may write, in this turn of its workgroup, */
  bool polls;  /* by what a wait for others is made of: an atomic operation, past the caches, or an invalidation */
};

#define EXEC_OF(w) (*(uint64_t *)&(w)->s[EXEC])
#define VCC_OF(w) (*(uint64_t *)&(w)->s[VCC])
static inline uint64_t vcc_lanes(const Wave *w) { return w->launch->lanes < LANES ? w->s[VCC] : VCC_OF(w); }
#define PAIR_OF(w, n) (*(uint64_t *)&(w)->s[n]) /* pairs are even and so aligned */

/* ---- Findings ---------------------------------------------------------------------------------------------------- */
typedef enum {
  OUT_OF_BOUNDS_READ,   /* of memory; `address`, `bytes`, and the region nearest to it */
  OUT_OF_BOUNDS_WRITE,
  LDS_OUT_OF_BOUNDS,    /* beyond what the workgroup has allocated */
  LDS_RACE,             /* two waves, at least one writes, no barrier between them */
  UNDEFINED_VALUE,      /* stored, branched on, or an address, and nothing has written it */
  MISSING_WAIT,         /* a register or LDS bytes used before their load has arrived */
  DIVERGENT_BARRIER,    /* some waves ended or wait elsewhere while others wait at a barrier */
  MISALIGNED,           /* an address that the hardware refuses */
  NON_FINITE,           /* infinity or NaN from finite operands; only when traced */
  WRITE_CONFLICT,       /* lanes of one instruction write different values to one address */
  MEMORY_RACE,          /* two workgroups access one address, one writes, and nothing orders them */
  TRAP,
  OUTSIDE_CODE,         /* a branch, or the end of the code, leads to something that is not an instruction */
  NO_END,               /* a workgroup that went over the limit of instructions */
  UNKNOWN_INSTRUCTION,  /* cannot verify */
  WRONG_RESULT,         /* the last writer of a place that the host knows to be wrong */
  CLOCK_READ,           /* only when judged */
  SLEEP,                /* outside of a loop that waits for memory; only when judged */
  FINDING_KINDS,
} FindingKind;

typedef struct {
  FindingKind kind;
  const Instruction *at;    /* where it shows */
  const Instruction *other; /* the other access of a race, the load that was not waited for, where an undefined value
                               came from; or NULL */
  int lane, other_wave, other_lane; /* -1: none in particular */
  uint64_t address;         /* of memory, or the offset in LDS */
  uint32_t bytes;
  bool has_address;
  bool not_executed;        /* on a path that was not taken */
  char note[512];           /* a register's name, a counter, …; may be empty */
} Finding;

/* Notes a finding of a wave. The first of each (kind, kernel, at) is kept whole, further ones are counted. */
void report(Wave *wave, const Finding *finding);
void report_and_stop(Wave *wave, const Finding *finding); /* no wave of the launch goes on */
uint32_t finding_count(void);
char *finding_json(uint32_t n); /* to be freed */
void clear_findings(void);

/* ---- Checks: called by the loop in dispatch.c and by memory instructions, only when wave->checks is set --------------------- */
WaveChecks *new_wave_checks(void);
void reset_wave_checks(Wave *wave); /* at the start of a wave: all registers undefined */
void define_vector(Wave *wave, uint32_t index, uint64_t lanes);
void define_scalar(Wave *wave, uint32_t index);
void free_wave_checks(WaveChecks *checks);
size_t lds_shadow_bytes(uint32_t lds_bytes);
void reset_lds_shadow(Workgroup *group);

/* Before and after an instruction that is not IS_MEMORY: waits, undefined values from operands to results. */
void check_before(Wave *wave, const Instruction *i);
void check_after(Wave *wave, const Instruction *i);
/* s_waitcnt: counts that may be outstanding, -1 where it says nothing. */
void check_wait(Wave *wave, int vm, int lgkm, int exp);
void check_scalar_wait(Wave *wave); /* for scalar loads, where they have a counter of their own */
void check_barrier_passed(Workgroup *group);
void classify_rows(const Row *rows); /* once for each table without memory instructions, before any is executed */
void choose_looked_at(Instruction *i); /* once, after decoding */
void choose_halves(Code *code, Arch arch); /* the same */
void find_runs(Code *code);

/* ---- Values: values.h has the inline functions; the tables in vector.c use them ---------------------------------- */

#endif
