/* What kernels ask of the host while they run: printf, the text of a failed assertion, memory for their malloc. */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include "machine.h"

/* Addresses for the hidden arguments, made when they are first asked for; 0 when there is no memory. */
uint64_t host_call_buffer(void); /* hidden_hostcall_buffer */
uint64_t device_heap(void);      /* hidden_heap_v1 */

uint64_t new_printf_buffer(void); /* hidden_printf_buffer, of one launch */

/* Prints what the kernel has put into its printf buffer, and forgets it; at the end of the launch. */
void print_buffered(const CodeObject *object, uint64_t printf_buffer);

/* Answers what waves have asked; called when one has sent its interrupt. */
void answer_host_calls(Wave *w);

/* The last line that a kernel has written to standard error, as a failed assertion does; "" when there is none. */
void last_error_line(char *text, size_t size);
void forget_error_line(void);

#endif
