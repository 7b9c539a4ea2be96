/* Instructions as steps; see steps.h. */
#include "steps.h"

#include <stdlib.h>

void perform_whole(Wave *w, const Step *s) {
  w->next = s->next;
  s->i->execute(w, s->i);
}

/* What is computed when it is read, or lost when it is written, is left to the instruction. */
static bool is_stored(const Operand *o) {
  unsigned count = o->count ? o->count : 1;
  return o->index + count <= VCCZ && (o->index + count <= NULL_REGISTER || o->index > NULL_REGISTER);
}

static bool take_source(Step *s, unsigned n, const Operand *o) {
  if (o->neg || o->abs || o->sext || o->select || o->half) return false;
  s->source[n] = o->kind == LITERAL ? literal_32(o) : o->index;
  s->kind[n] = o->kind == VECTOR ? OF_VECTOR : o->kind == SCALAR ? OF_SCALAR : OF_LITERAL;
  return o->kind == VECTOR ? o->plain : o->kind == SCALAR ? is_stored(o) : o->kind == LITERAL;
}

static bool resolve(Step *s, const Instruction *i) {
  unsigned results = i->row->results, sources = (unsigned)i->operand_count - results;
  if (i->operand_count < results || sources > 3 || !i->direct) return false;
  s->source[2] = (uint32_t)i->offset1;
  if (i->row->flags & OPERANDS_IN_ENCODING) {
    s->source[0] = (uint32_t)i->target;
    return i->target >= 0;
  }
  for (unsigned n = 0; n < sources; n++)
    if (!take_source(s, n, &i->operand[results + n])) return false;
  if (!results) return true;
  const Operand *o = &i->operand[0];
  s->result = o->index;
  s->result_count = o->count;
  return (o->kind == VECTOR && !o->half) || (o->kind == SCALAR && is_stored(o));
}

static void perform_pair(Wave *w, const Step *s) {
  for (const Step *part = s + s->source[0], *end = part + s->i->part_count; part < end; part++) part->perform(w, part);
}

static void choose_step(Step *s, const Instruction *i, uint32_t next) {
  *s = (Step){.i = i, .next = next};
  s->perform = i->row->perform && i->execute == i->row->execute && resolve(s, i) ? i->row->perform : perform_whole;
}

void choose_steps(Code *code) {
  uint32_t behind = code->count + 1, all = behind;
  for (uint32_t n = 0; n < code->count; n++) all += code->instructions[n].part_count;
  code->steps = malloc(all * sizeof *code->steps);
  if (!code->steps) abort();
  for (uint32_t n = 0; n <= code->count; n++) {
    const Instruction *i = &code->instructions[n];
    choose_step(&code->steps[n], i, n + 1);
    if (!i->parts) continue;
    code->steps[n].perform = perform_pair;
    code->steps[n].source[0] = behind - n;
    for (unsigned part = 0; part < i->part_count; part++) choose_step(&code->steps[behind++], &i->parts[part], n + 1);
  }
}
