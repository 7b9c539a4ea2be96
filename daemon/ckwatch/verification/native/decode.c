/* What the disassembler prints → instructions. Text is parsed rather than encodings: LLVM knows the encodings of every
 * target, and its text is what users see. Only what the text spells as names (DPP controls, SOPP immediates) is taken
 * from the encoded words, which the disassembler prints in a comment. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"


static void execute_data(Wave *w, const Instruction *i) {
  leave_code(w, i, "this is no instruction of %s", name_of_arch(w->launch->arch));
}
static const Row data_row = {"data", execute_data, 0, IGNORES_EXEC, PLAIN_BITS, 0};

/* ---- Operands ------------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  uint8_t index, count;
} named[] = {
    {"vcc", VCC, 2}, {"vcc_lo", VCC, 1}, {"vcc_hi", VCC + 1, 1}, {"exec", EXEC, 2}, {"exec_lo", EXEC, 1},
    {"exec_hi", EXEC + 1, 1}, {"m0", M0, 1}, {"scc", SCC, 1}, {"src_scc", SCC, 1}, {"vccz", VCCZ, 1},
    {"src_vccz", VCCZ, 1}, {"execz", EXECZ, 1}, {"src_execz", EXECZ, 1}, {"null", NULL_REGISTER, 1},
    {"flat_scratch", FLAT_SCRATCH, 2}, {"flat_scratch_lo", FLAT_SCRATCH, 1}, {"flat_scratch_hi", FLAT_SCRATCH + 1, 1},
    {"xnack_mask", XNACK_MASK, 2}, {"xnack_mask_lo", XNACK_MASK, 1}, {"xnack_mask_hi", XNACK_MASK + 1, 1},
    {"src_shared_base", SHARED_BASE, 2}, {"src_shared_limit", SHARED_LIMIT, 2},
    {"src_flat_scratch_base_lo", FLAT_SCRATCH, 2}, {"src_flat_scratch_base_hi", FLAT_SCRATCH + 1, 1},
    {"src_private_base", PRIVATE_BASE, 2}, {"src_private_limit", PRIVATE_LIMIT, 2},
};

/* `s7`, `v[4:7]`: the first register and how many. */
static bool parse_registers(const char *text, uint32_t *first, uint32_t *count) {
  char *end;
  if (*text == '[') {
    *first = (uint32_t)strtoul(text + 1, &end, 10);
    uint32_t last = *first;
    if (*end == ':') last = (uint32_t)strtoul(end + 1, &end, 10);
    *count = last - *first + 1;
    return strcmp(end, "]") == 0 && last >= *first;
  }
  if (!isdigit((unsigned char)*text)) return false;
  *first = (uint32_t)strtoul(text, &end, 10);
  *count = 1;
  return !*end;
}

static bool parse_literal(const char *text, Operand *o) {
  char *end;
  o->kind = LITERAL;
  o->count = 1;
  bool negative = *text == '-';
  const char *digits = text + negative;
  if (strncmp(digits, "0x", 2) == 0) {
    o->is_hex = true;
    o->bits = (int64_t)strtoull(digits, &end, 16);
    if (negative) o->bits = -o->bits;
  } else if (strpbrk(digits, ".eE")) {
    o->is_float = true;
    o->real = strtod(text, &end);
    /* 1 / (2 π), which is printed with the digits of the operand's type */
    if (o->real > 0.1591 && o->real < 0.1592) o->real = 0.15915494309189532;
  } else {
    o->bits = strtoll(text, &end, 10);
  }
  return end != text && !*end;
}

/* One operand without its modifiers. False when it is not understood. */
static bool parse_plain(const char *text, Operand *o) {
  uint32_t first, count;
  if (strcmp(text, "off") == 0) return true;
  for (size_t n = 0; n < sizeof named / sizeof *named; n++)
    if (strcmp(text, named[n].name) == 0) {
      *o = (Operand){.kind = SCALAR, .index = named[n].index, .count = named[n].count};
      return true;
    }
  if ((text[0] == 'v' || text[0] == 'a') && parse_registers(text + 1, &first, &count)) {
    o->kind = VECTOR;
    o->index = (uint16_t)(first + (text[0] == 'a' ? 256 : 0));
    o->count = (uint8_t)count;
    return first + count <= (text[0] == 'a' ? 256 : VECTOR_REGISTERS); /* v256 and on: of gfx1250, which has no AGPRs */
  }
  if (text[0] == 's' && parse_registers(text + 1, &first, &count)) {
    *o = (Operand){.kind = SCALAR, .index = (uint16_t)first, .count = (uint8_t)count};
    return first + count <= VCC;
  }
  if (strncmp(text, "ttmp", 4) == 0 && parse_registers(text + 4, &first, &count)) {
    *o = (Operand){.kind = SCALAR, .index = (uint16_t)(TTMP0 + first), .count = (uint8_t)count};
    return first + count <= 16;
  }
  if (text[0] == '[') { /* a list of registers: [s0,s1], [v0,v1]; they follow each other */
    char inner[64];
    const char *comma = strchr(text, ',');
    if (!comma || (size_t)(comma - text) >= sizeof inner) return false;
    memcpy(inner, text + 1, (size_t)(comma - text - 1));
    inner[comma - text - 1] = 0;
    if (!parse_plain(inner, o)) return false;
    for (const char *c = text; *c; c++) o->count += *c == ',';
    return true;
  }
  size_t length = strlen(text);
  if (strncmp(text, "lit", 3) == 0 && length && text[length - 1] == ')') { /* lit(0x10), lit64(0x10) */
    char inner[64];
    const char *open = strchr(text, '(');
    size_t size = open ? strlen(open) - 2 : sizeof inner;
    if (size >= sizeof inner) return false;
    memcpy(inner, open + 1, size);
    inner[size] = 0;
    return parse_literal(inner, o);
  }
  return parse_literal(text, o);
}

static bool parse_operand(char *text, Operand *o) {
  size_t length = strlen(text);
  if (*text == '-' && (text[1] == '|' || isalpha((unsigned char)text[1]))) {
    o->neg = true;
    text++, length--;
  }
  if (*text == '|' && length > 2 && text[length - 1] == '|') {
    o->abs = true;
    text[length - 1] = 0;
    text++;
  } else if (length > 5 && text[length - 1] == ')' &&
             (strncmp(text, "sext(", 5) == 0 || strncmp(text, "neg(", 4) == 0 || strncmp(text, "abs(", 4) == 0)) {
    text[length - 1] = 0;
    o->sext |= *text == 's', o->neg |= *text == 'n', o->abs |= *text == 'a';
    return parse_operand(strchr(text, '(') + 1, o);
  }
  bool neg = o->neg, absolute = o->abs, sext = o->sext;
  uint8_t half = WHOLE_REGISTER;
  length = strlen(text);
  if (*text == 'v' && length > 2 && text[length - 2] == '.') {
    half = text[length - 1] == 'l' ? LOWER_HALF : UPPER_HALF;
    text[length - 2] = 0;
  }
  bool good = parse_plain(text, o);
  o->neg = neg, o->abs = absolute, o->sext = sext, o->half = half;
  return good;
}

/* ---- Modifiers ----------------------------------------------------------------------------------------------------- */

static uint8_t parse_bits(const char *list) { /* [1,0,1] → 0b101 */
  uint8_t bits = 0;
  int at = 0;
  for (const char *c = list; *c; c++)
    if (*c == '0' || *c == '1') bits |= (uint8_t)((*c - '0') << at++);
  return bits;
}

static int parse_choice(const char *text, const char *const *choices) {
  for (int n = 0; choices[n]; n++)
    if (strcmp(text, choices[n]) == 0) return n;
  return -1;
}

static const char *const selections[] = {"DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", NULL};
static const char *const unused[] = {"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", NULL};
static const char *const flags[] = {"offen", "idxen", "glc", "slc", "lds", "gds", "sc0", "sc1", "nt", "clamp", "dlc",
                                    "scc", "tfe", "vm", "high", "scale_offset", "nv", "matrix_a_reuse", "matrix_b_reuse",
                                    NULL};

static bool is_flag(const char *word) { return parse_choice(word, flags) >= 0; }

typedef struct {
  uint8_t select[2];
} Sdwa;

/* Spelled-out immediates of SOPP, SOPK and s_set_gpr_idx_on. */
static bool is_in_encoding(const char *piece) {
  static const char *const names[] = {"vmcnt(", "lgkmcnt(", "expcnt(", "hwreg(", "sendmsg(", "gpr_idx("};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    if (strncmp(piece, names[n], strlen(names[n])) == 0) return true;
  return false;
}

/* False when a modifier is not understood: what would change a result is never passed over. */
static bool parse_modifier(char *word, Instruction *i, Sdwa *sdwa) {
  char *value = strchr(word, ':');
  if (!value) {
    switch (parse_choice(word, flags)) {
      case 0: i->offen = true; return true;
      case 1: i->idxen = true; return true;
      case 2: i->glc = true; return true;
      case 3: return true;
      case 4: i->lds = true; return true;
      case 5: return false; /* global data share */
      case 6: i->sc0 = true; return true;
      case 7: i->sc1 = true; return true;
      case 8: i->nt = true; return true;
      case 9: i->clamp = true; return true;
      case 10: case 11: case 16: case 17: case 18: return true;
      case 15: i->scale = true; return true;
      default: break;
    }
    return is_in_encoding(word) || strcmp(word, "row_mirror") == 0 || strcmp(word, "row_half_mirror") == 0;
  }
  *value++ = 0;
  long number = strtol(value, NULL, 0);
  if (strcmp(word, "offset") == 0) i->offset = (int32_t)number;
  else if (strcmp(word, "offset0") == 0) i->offset = (int32_t)number;
  else if (strcmp(word, "offset1") == 0) i->offset1 = (int32_t)number;
  else if (strcmp(word, "op_sel") == 0) i->op_sel = parse_bits(value);
  else if (strcmp(word, "op_sel_hi") == 0) i->op_sel_hi = parse_bits(value), i->has_op_sel_hi = true;
  else if (strcmp(word, "neg_lo") == 0) i->neg_lo = parse_bits(value);
  else if (strcmp(word, "neg_hi") == 0) i->neg_hi = parse_bits(value);
  else if (strcmp(word, "neg") == 0) i->neg_lo = parse_bits(value);
  else if (strcmp(word, "mul") == 0) i->omod = number == 2 ? 1 : 2;
  else if (strcmp(word, "div") == 0) i->omod = 3;
  else if (strcmp(word, "cbsz") == 0) i->cbsz = (uint8_t)number;
  else if (strcmp(word, "abid") == 0) i->abid = (uint8_t)number;
  else if (strcmp(word, "blgp") == 0) i->blgp = (uint8_t)number;
  else if (strcmp(word, "format") == 0) i->format = (uint8_t)number;
  else if (strcmp(word, "bitop3") == 0) i->format = (uint8_t)number;
  else if (strcmp(word, "th") == 0) i->glc = strstr(value, "RETURN") != NULL;
  else if (strcmp(word, "scope") == 0) i->sc1 = strcmp(value, "SCOPE_DEV") == 0 || strcmp(value, "SCOPE_SYS") == 0;
  else if (strcmp(word, "index_key") == 0) i->abid = (uint8_t)number;
  else if (strcmp(word, "byte_sel") == 0) i->op_sel = (uint8_t)number;
  else if (strcmp(word, "dst_sel") == 0) i->dst_select = (uint8_t)parse_choice(value, selections), i->sdwa = true;
  else if (strcmp(word, "dst_unused") == 0) i->dst_unused = (uint8_t)parse_choice(value, unused), i->sdwa = true;
  else if (strcmp(word, "src0_sel") == 0) sdwa->select[0] = (uint8_t)parse_choice(value, selections), i->sdwa = true;
  else if (strcmp(word, "src1_sel") == 0) sdwa->select[1] = (uint8_t)parse_choice(value, selections), i->sdwa = true;
  else {
    static const char *const dpp[] = {"quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_rol", "wave_shr",
                                      "wave_ror", "row_mirror", "row_half_mirror", "row_bcast", "row_newbcast",
                                      "row_share", "row_xmask", "row_mask", "bank_mask", "bound_ctrl", "fi", NULL};
    return parse_choice(word, dpp) >= 0; /* taken from the encoding */
  }
  return true;
}

/* ---- A line -------------------------------------------------------------------------------------------------------- */

/* Cuts `text` at `separator` outside of brackets, parentheses and bars; returns what follows or NULL. */
static char *cut(char *text, char separator) {
  int depth = 0;
  for (; *text; text++) {
    if (*text == '[' || *text == '(') depth++;
    if (*text == ']' || *text == ')') depth--;
    if (*text == separator && depth <= 0) {
      *text = 0;
      return text + 1;
    }
  }
  return NULL;
}

static char *trim(char *text) {
  while (isspace((unsigned char)*text)) text++;
  for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);) *--end = 0;
  return text;
}

static bool parse_rest(char *rest, Instruction *i, Sdwa *sdwa) {
  bool good = true;
  for (char *next; rest; rest = next) {
    next = cut(rest, ',');
    char *piece = trim(rest);
    for (bool first = true; piece && *piece; first = false) {
      char *others = cut(piece, ' ');
      char *colon = strchr(piece, ':');
      bool is_operand = first && !is_flag(piece) && !(colon && isalpha((unsigned char)piece[0]) && !strchr(piece, '[')) &&
                        !(colon && strchr(piece, '[') && colon < strchr(piece, '['));
      if (is_operand) {
        if (i->operand_count == MAX_OPERANDS) return false;
        Operand *o = &i->operand[i->operand_count++];
        if (is_in_encoding(piece))
          i->operand_count--;
        else
          good &= parse_operand(piece, o);
      } else {
        good &= parse_modifier(piece, i, sdwa);
      }
      piece = others ? trim(others) : NULL;
    }
  }
  return good;
}

static bool is_branch(const char *name) {
  return strncmp(name, "s_cbranch_", 10) == 0 || strncmp(name, "s_branch", 8) == 0 || strncmp(name, "s_call_", 7) == 0;
}

static void parse_instruction(char *line, Arch arch, const uint32_t *words, uint32_t word_count, Instruction *i);

/* On gfx1250 a comment behind an encoded number has that of the register, with the bits of s_set_vgpr_msb. */
static void take_numbers_of_registers(char *line) {
  for (char *comment; (comment = strstr(line, " /*v")) != NULL;) {
    char *end = strstr(comment, "*/"), *before = comment;
    if (!end) return;
    while (before > line && (isdigit((unsigned char)before[-1]) || strchr("[]:", before[-1]))) before--;
    if (before > line && before[-1] == 'v') before--;
    size_t length = (size_t)(end - comment - 3);
    memmove(before, comment + 3, length);
    memmove(before + length, end + 2, strlen(end + 2) + 1);
  }
}

/* v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v3, v4, v5 */
static bool parse_pair(char *lines[2], Arch arch, Instruction *i) {
  static const uint32_t no_words[4];
  Instruction *parts = calloc(3, sizeof *parts);
  for (int n = 0; n < 2; n++) {
    parts[n].address = i->address;
    parts[n].size = i->size;
    parts[n].text = i->text;
    parts[n].target = -1;
    parse_instruction(lines[n], arch, no_words, 0, &parts[n]);
  }
  if (parts[0].row == &unknown_row || parts[1].row == &unknown_row || !order_pair(parts, &i->part_count)) {
    free(parts);
    return false;
  }
  for (int n = 0; n < i->part_count; n++) choose_looked_at(&parts[n]);
  i->parts = parts;
  i->row = &pair_row;
  i->execute = pair_row.execute;
  return true;
}

/* A lane's access to memory takes about as long as an instruction without any; a matrix instruction as 128 of them. */
static uint8_t cost_of(const Row *row) {
  if (strncmp(row->name, "s_", 2) == 0) return 1;
  bool is_matrix = strstr(row->name, "mfma") || strstr(row->name, "smfmac") || strstr(row->name, "wmma");
  return is_matrix ? 128 : row->flags & IS_MEMORY ? 64 : 1;
}

/* One line of the disassembly into `i`; `line` is changed. Its words go to `words`. */
static void parse_instruction(char *line, Arch arch, const uint32_t *words, uint32_t word_count, Instruction *i) {
  char *second = strstr(line, " :: ");
  if (is_rdna(arch) && second) {
    *second = 0;
    if (parse_pair((char *[]){line, second + 4}, arch, i)) return;
  }
  char *name = trim(line);
  char *rest = cut(name, ' ');
  if (*name == '.' || strcmp(name, "s_code_end") == 0) { /* .long: words that LLVM cannot decode; what pads the code */
    i->row = &data_row;
    i->execute = execute_data;
    return;
  }
  i->row = second ? NULL : is_rdna(arch) ? find_rdna_row(name) : find_row(name);
  Sdwa sdwa = {{DWORD, DWORD}};
  bool good = i->row != NULL;
  if (good && rest && !(i->row->flags & OPERANDS_IN_ENCODING)) good = parse_rest(rest, i, &sdwa);
  size_t length = strlen(name);
  if (good && length > 4 && strcmp(name + length - 4, "_dpp") == 0 && word_count > 1) {
    uint32_t control = words[word_count - 1];
    i->dpp = true;
    i->dpp_control = (int16_t)(control >> 8 & 0x1ff);
    i->fetch_inactive = control >> 18 & 1;
    i->bound_ctrl = control >> 19 & 1;
    i->bank_mask = control >> 24 & 15;
    i->row_mask = control >> 28 & 15;
  }
  if (good && is_rdna(arch)) good = adapt_to_rdna(name, i);
  if (!good) {
    i->row = &unknown_row;
    i->execute = unknown_row.execute;
    i->operand_count = 0;
    return;
  }
  i->execute = i->row->execute;
  bool is_sop = strncmp(name, "s_", 2) == 0;
  /* SOPP and SOPK: the immediate is the encoding's lower half. */
  if (is_sop && !(i->row->flags & IS_MEMORY)) i->offset1 = (int32_t)(words[0] & 0xffff);
  if (strncmp(name, "tbuffer_", 8) == 0) i->format = words[0] >> 19 & 0x7f;
  if (strcmp(i->row->name, "ds_swizzle_b32") == 0) i->offset = (int32_t)(words[0] & 0xffff);
  uint8_t results = i->row->results;
  if (i->sdwa) {
    int source = 0;
    for (int n = results; n < i->operand_count && source < 2; n++)
      i->operand[n].select = sdwa.select[source++];
  }
  for (int n = 0; n < i->operand_count; n++) {
    Operand *o = &i->operand[n];
    bool first_source = n == results;
    o->plain = o->kind == VECTOR && !o->neg && !o->abs && !o->sext && o->select == DWORD && !(i->dpp && first_source);
    if (o->kind == NO_OPERAND) continue;
    if (n < results) i->writes |= (uint8_t)(1 << n);
    else i->reads |= (uint8_t)(1 << n);
  }
  if (i->row->flags & READS_RESULT) i->reads |= 1;
  if (i->row->flags & ALL_RESULTS_READ) i->reads |= 3, i->writes |= 3;
  if (i->sdwa && i->dst_unused == 2) i->reads |= 1;
  if (i->dpp && results) i->reads |= 1;
  i->direct = !(i->sdwa || i->dpp || i->clamp || i->omod || i->half_result || i->op_sel || i->has_op_sel_hi ||
                i->neg_lo || i->neg_hi || i->format);
}

Code *decode(const char *disassembly, Arch arch, char **problem) {
  Code *code = calloc(1, sizeof *code);
  size_t capacity = 4096, length = strlen(disassembly);
  code->instructions = malloc(capacity * sizeof(Instruction));
  char *texts = code->texts = malloc(length + 64);
  char *scratch = malloc(length + 1);
  bool any = false;
  for (const char *line = disassembly; line && *line;) {
    const char *end = strchr(line, '\n');
    size_t size = end ? (size_t)(end - line) : strlen(line);
    const char *comment = memmem(line, size, "// ", 3);
    if (*line == '\t' && comment) {
      if (code->count + 2 > capacity)
        code->instructions = realloc(code->instructions, (capacity *= 2) * sizeof(Instruction));
      Instruction *i = &code->instructions[code->count];
      memset(i, 0, sizeof *i);
      char *after;
      uint64_t address = strtoull(comment + 3, &after, 16);
      uint32_t words[4] = {0}, word_count = 0;
      while (*after == ':' || *after == ' ') {
        while (*after == ':' || *after == ' ') after++;
        if (!isxdigit((unsigned char)*after)) break;
        uint32_t word = (uint32_t)strtoul(after, &after, 16);
        if (word_count < 4) words[word_count++] = word;
      }
      if (!any) code->text_address = address, any = true;
      i->address = (uint32_t)(address - code->text_address);
      i->size = word_count * 4;
      i->target = -1;
      size_t shown = (size_t)(comment - line);
      memcpy(scratch, line, shown);
      scratch[shown] = 0;
      char *text = trim(scratch);
      i->text = texts;
      texts = stpcpy(texts, text) + 1;
      if (arch == GFX1250) take_numbers_of_registers(text);
      parse_instruction(text, arch, words, word_count, i);
      code->count++;
    }
    line = end ? end + 1 : NULL;
  }
  free(scratch);
  if (!any) {
    free_code(code);
    *problem = strdup("the disassembler printed no instruction");
    return NULL;
  }
  for (uint32_t n = 0; n < code->count; n++) {
    Instruction *i = &code->instructions[n];
    choose_looked_at(i);
    i->cost = cost_of(i->row);
    if (is_branch(i->text))
      i->target = instruction_at(code, i->address + 4 + (uint64_t)((int64_t)(int16_t)i->offset1 * 4));
  }
  choose_halves(code, arch);
  Instruction *last = &code->instructions[code->count]; /* what lies behind the code */
  memset(last, 0, sizeof *last);
  last->row = &end_row;
  last->execute = end_row.execute;
  last->cost = 1;
  last->text = "the end of the code";
  last->address = code->text_bytes = code->count ? last[-1].address + last[-1].size : 0;
  last->target = -1;
  choose_steps(code);
  find_runs(code);
  return code;
}
